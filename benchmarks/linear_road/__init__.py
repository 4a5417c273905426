"""The Linear Road benchmark: variable tolling on expressways, with traffic generator, validator and workflow."""
