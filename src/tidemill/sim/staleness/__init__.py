"""Simulates staleness in virtual time: the production dispatcher on simulated tables."""
