"""Staleness in virtual time: the dispatcher as it is, and tables that nobody has to have."""
