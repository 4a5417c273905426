from tests.catalog.driven import driver

__all__ = ["driver"]
