"""The demonstration: news de-duplication, from arriving articles to unique ones."""
