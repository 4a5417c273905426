"""Which job first, and where? Pure: costs, periods, priorities, batches and the time are given."""
