"""The HTTP API. No other package imports FastAPI."""
