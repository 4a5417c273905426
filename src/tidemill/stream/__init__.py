"""Event streams: state that is looked up by key, windows and waves, vectorised once per partition and without Spark."""

from tidemill.stream.keyed import Columns, Step
from tidemill.stream.operator import Batch, Made, Operator, Piece

__all__ = ["Batch", "Columns", "Made", "Operator", "Piece", "Step"]
