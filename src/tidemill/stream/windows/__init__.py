"""Windows over queues of events: one way to form them for each combination of step and size."""
