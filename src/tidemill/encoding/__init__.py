"""Encoding of values as JSON, CSV and Arrow, and of block rows as JSON lines."""
