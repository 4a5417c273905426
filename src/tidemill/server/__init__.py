"""The HTTP API. FastAPI lives here alone."""
