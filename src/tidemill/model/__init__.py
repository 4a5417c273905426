"""The domain model: plain values without Spark, database or clock, on which all other packages are built."""
