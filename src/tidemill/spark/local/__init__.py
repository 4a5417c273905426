"""The driver's own execution of small steps, on Arrow."""
