"""A project at work: its settings, its workflow files, and the wiring of catalog, block store and engine."""
