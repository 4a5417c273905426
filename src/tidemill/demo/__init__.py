"""The demonstration: news de-duplication, from incoming articles to unique ones."""
