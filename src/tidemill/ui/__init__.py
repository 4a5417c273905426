"""The web page: how everything stands, for people who would rather see than read."""

from tidemill.ui.page import mount_pages
from tidemill.ui.viewer import Viewer

__all__ = ["Viewer", "mount_pages"]
