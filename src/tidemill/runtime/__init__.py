"""The runtime executes runs, inserts data and maintains channels. It depends on ports, not on implementations."""
