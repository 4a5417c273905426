"""Where data comes from by itself: addresses, folders and hubs that a server goes to."""

from tidemill.intake.sources.folder import FolderSource
from tidemill.intake.sources.tcp import TcpSource
from tidemill.intake.sources.websub import Subscription, lines_of, renewal

__all__ = ["FolderSource", "Subscription", "TcpSource", "lines_of", "renewal"]
