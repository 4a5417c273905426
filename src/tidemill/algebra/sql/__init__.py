"""Translation of Spark SQL into operators."""

from tidemill.algebra.sql.reading import NotIncremental
from tidemill.algebra.sql.relation import TypedRelation, find_source, scan_channel
from tidemill.algebra.sql.translate import translate_query

__all__ = ["NotIncremental", "TypedRelation", "find_source", "scan_channel", "translate_query"]
