"""The interfaces between the runtime and its adapters, and the records that a catalog returns."""
