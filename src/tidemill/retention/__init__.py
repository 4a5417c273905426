"""Retention: decides what to compact, collect, evict and reuse, without doing it."""
