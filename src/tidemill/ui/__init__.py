"""The web pages of a project: its status as a graph, tables and charts."""

from tidemill.ui.context import Viewer
from tidemill.ui.page import mount_pages

__all__ = ["Viewer", "mount_pages"]
