"""Values as JSON, CSV and Arrow; the rows of blocks as lines of JSON."""
