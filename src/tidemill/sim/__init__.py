"""Simulations in virtual time, with the production scheduler."""
