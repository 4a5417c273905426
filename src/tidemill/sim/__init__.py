"""Workflows in virtual time, planned by the planner as it is."""
