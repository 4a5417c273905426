"""When a lost engine is restarted, when no longer, and how healthy it counts meanwhile."""

from __future__ import annotations

from tidemill.model.health import HEALTHY, RETRY_SECONDS, STABLE_SECONDS, RestartPolicy


def test_consecutive_losses_wait_longer_until_the_policy_gives_up() -> None:
    restarts = RestartPolicy()
    waits = []
    for _ in RETRY_SECONDS:
        restarts.record_start(0.0)
        restarts.record_loss("gone", 0.0)
        waits.append(restarts.report_health(0.0).retry_in)
        assert not restarts.report_health(0.0).has_given_up
    assert tuple(waits) == RETRY_SECONDS
    restarts.record_loss("it did not start", 0.0)
    assert restarts.report_health(0.0).has_given_up
    assert restarts.report_health(0.0).problem == "it did not start"


def test_a_stable_engine_resets_the_loss_count() -> None:
    restarts, now = RestartPolicy(), 0.0
    for _ in range(20):
        restarts.record_start(now)
        now += STABLE_SECONDS
        restarts.record_loss("gone", now)
        assert restarts.report_health(now).retry_in == 0.0
    assert not restarts.report_health(now).has_given_up


def test_the_retry_wait_decreases_with_time() -> None:
    restarts = RestartPolicy()
    for _ in range(3):
        restarts.record_loss("gone", 0.0)
    assert restarts.report_health(0.0).retry_in == RETRY_SECONDS[2]
    assert restarts.report_health(RETRY_SECONDS[2] - 0.5).retry_in == 0.5
    assert restarts.report_health(RETRY_SECONDS[2] + 9.0).retry_in == 0.0


def test_a_restarted_engine_is_degraded_until_it_is_stable() -> None:
    restarts = RestartPolicy()
    restarts.record_start(0.0)
    assert restarts.report_health(1.0) == HEALTHY
    restarts.record_loss("gone", 1.0)
    restarts.record_start(5.0)
    health = restarts.report_health(8.0)
    assert health.is_ready
    assert health.reason == "it was lost 1 time in a row, and restarted 3 s ago"
    assert restarts.report_health(5.0 + STABLE_SECONDS) == HEALTHY
