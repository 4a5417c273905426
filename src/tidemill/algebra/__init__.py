"""Relational operators and the derivation of their changes."""
