"""The health of a project: every server serves, and every workflow may grow."""

from __future__ import annotations

from tidemill.app.inspection import judge_service
from tidemill.model.health import ServiceHealth
from tidemill.model.quota import QuotaUsage, WorkflowQuota
from tidemill.ports.records import RECOVERING, Server
from tidemill.wire.schemas import HealthDocument


def test_a_project_without_problems_is_healthy() -> None:
    health = judge_service([Server("one", "up", 2)], [QuotaUsage("shop", WorkflowQuota(storage=10), 10)])
    assert HealthDocument.model_validate(health).to_json() == {"status": "ok", "reason": None}


def test_recovering_servers_and_exceeded_quotas_degrade_it() -> None:
    servers = [Server("one", "up", 2, RECOVERING), Server("two", "up", 2)]
    health = judge_service(servers, [QuotaUsage("shop", WorkflowQuota(storage=1000), 2000)])
    assert health == ServiceHealth(
        "server one lost Spark and restarts it; workflow shop uses 2.0 kB, more than its storage quota of 1.0 kB"
    )
    assert HealthDocument.model_validate(health).status == "degraded"
