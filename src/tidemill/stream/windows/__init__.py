"""Windows over queues of events: one window former for each combination of step and size."""
