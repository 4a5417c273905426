"""Event streams: keyed state, windows and waves, vectorised once per partition and without Spark."""

from tidemill.stream.keyed import Columns, KeyedResult
from tidemill.stream.operator import InputBlock, OperatorBatch, OperatorResult, StatefulOperator

__all__ = ["Columns", "InputBlock", "KeyedResult", "OperatorBatch", "OperatorResult", "StatefulOperator"]

_RENAMED = {
    "Step": "KeyedResult",
    "Operator": "StatefulOperator",
    "Batch": "OperatorBatch",
    "Made": "OperatorResult",
    "Piece": "InputBlock",
}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        raise ImportError(f"tidemill.stream.{name} was renamed to {_RENAMED[name]}")
    raise AttributeError(f"module 'tidemill.stream' has no attribute {name!r}")
