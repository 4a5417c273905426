"""Spark lives here alone."""
