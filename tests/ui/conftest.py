from tests.catalog.driver_fixture import driver

__all__ = ["driver"]
