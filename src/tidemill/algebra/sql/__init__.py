"""Translation of Spark SQL into operators."""

from tidemill.algebra.sql.reading import NotIncremental, SourceTable
from tidemill.algebra.sql.translate import TranslatedQuery, translate_query

__all__ = ["NotIncremental", "SourceTable", "TranslatedQuery", "translate_query"]
