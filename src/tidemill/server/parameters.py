"""Parameters of routes, each with the values that it may have: what is none never reaches the catalog."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

_NAME = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
_ANY_NAME = r"^[^/\x00-\x1f\x7f]+$"
_AS_OF = r"^([0-9]{1,18}|[0-9]{4}-[0-9Tt:.,+ Zz-]{2,36})$"
_LARGEST = 2**63 - 1
_LONGEST = 200

Name = Annotated[str, Path(description="The channel's name.", pattern=_NAME, max_length=_LONGEST)]
FlowName = Annotated[str, Path(description="The bound flow's name.", pattern=_NAME, max_length=_LONGEST)]
WorkflowName = Annotated[str, Path(description="The workflow's name.", pattern=_ANY_NAME, max_length=_LONGEST)]
User = Annotated[str, Path(description="The user's name.", pattern=r"^[A-Za-z0-9_.@-]{1,100}$")]
TokenId = Annotated[str, Path(description="The token's number.", pattern=r"^[0-9a-f]{12}$")]
Number = Annotated[int, Path(description="The number.", ge=1, le=_LARGEST)]

Limit = Annotated[int, Query(description="How many at most.", ge=1, le=1000)]
Before = Annotated[int | None, Query(description="Only what has a smaller number.", ge=1, le=_LARGEST)]
After = Annotated[int | None, Query(description="Only what has a larger number.", ge=0, le=_LARGEST)]
Every = Annotated[bool, Query(alias="all", description="The state channels of declared tables, too.")]
OfFlow = Annotated[str | None, Query(description="Only this flow's.", pattern=_NAME, max_length=_LONGEST)]
OfSubject = Annotated[
    str | None, Query(description="Only of this flow, or channel.", pattern=_NAME, max_length=_LONGEST)
]
WaveTag = Annotated[
    str, Query(description="The tag of an event, such as 17.3!", pattern=r"^[0-9]{1,18}(\.[1-9][0-9]{0,17}!?){0,100}$")
]
AsOf = Annotated[
    str | None,
    Query(description="A sequence number, or a time in UTC like 2026-05-01T12:00.", pattern=_AS_OF),
]
