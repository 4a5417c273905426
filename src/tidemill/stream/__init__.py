"""Event streams: state that is looked up by key, windows and waves, vectorised once per partition and without Spark."""

from tidemill.stream.keyed import Columns, KeyedResult
from tidemill.stream.operator import InputBlock, OperatorBatch, OperatorResult, StatefulOperator

__all__ = ["Columns", "InputBlock", "KeyedResult", "OperatorBatch", "OperatorResult", "StatefulOperator"]
