"""Intake of external data: inserted files and in-memory tables."""
