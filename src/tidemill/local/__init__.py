"""Execution of operators on the driver by an embedded engine."""
