"""Reports on a project: status, explanations, lineage, metrics and change feeds."""
