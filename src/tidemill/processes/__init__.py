"""Processes of the operating system: their descendants, what they use, and how they end."""
