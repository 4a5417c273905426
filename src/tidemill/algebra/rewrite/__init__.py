"""Rewriting of queries, programs and operators: `passes` lists every pass in order; each has a module."""
