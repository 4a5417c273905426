"""From Spark SQL to operators."""

from tidemill.algebra.sql.reading import NotIncremental, Source
from tidemill.algebra.sql.translate import Translated, translate

__all__ = ["NotIncremental", "Source", "Translated", "translate"]
