"""Linear Road: variable tolling on expressways, with its own traffic, its own validator, and the workflow."""
