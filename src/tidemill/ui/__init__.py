"""The web pages of a project: its status as a graph, tables and charts."""

from tidemill.ui.page import mount_pages
from tidemill.ui.viewer import Viewer

__all__ = ["Viewer", "mount_pages"]
