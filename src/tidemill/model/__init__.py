"""The nouns: what everything else talks about, with no Spark, no database and no clock."""
