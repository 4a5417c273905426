"""Maintenance: compaction, vacuum, and the ownership of the block store."""
