"""Event streams: state that is looked up by key, windows and waves, vectorised once per partition and without Spark."""
