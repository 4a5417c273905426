"""Runs: inserts, claims, execution, and the server that starts them."""
