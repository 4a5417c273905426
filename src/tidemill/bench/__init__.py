"""Measurements of this system, as ratios within one run."""
