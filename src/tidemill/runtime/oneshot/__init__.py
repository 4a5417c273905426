"""One-shot workflows: submissions, their actions, and the datasets that are kept."""
