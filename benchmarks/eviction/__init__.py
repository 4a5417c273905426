"""Replays of histories of submitted workflows with a storage budget."""
