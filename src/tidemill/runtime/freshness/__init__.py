"""Freshness: how stale tables are, which of them are refreshed next, and in which mode."""
