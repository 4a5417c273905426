"""One-shot workflows as JSON: their form, their validation, and their tasks."""
