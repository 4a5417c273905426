"""Histories of submitted workflows, lived through under a budget for storage."""
