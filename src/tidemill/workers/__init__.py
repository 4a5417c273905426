"""Worker processes: they execute users' code for a server, which survives its faults."""
