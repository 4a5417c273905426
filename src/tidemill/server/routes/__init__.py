"""The routes of the API, one resource per file."""
