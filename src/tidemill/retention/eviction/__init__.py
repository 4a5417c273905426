"""Eviction of datasets: choose those to delete when space is short."""
