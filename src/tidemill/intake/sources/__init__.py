"""Where data comes from by itself: addresses, folders and hubs that a server goes to."""

from tidemill.intake.sources.folder import FolderSource
from tidemill.intake.sources.tcp import TcpSource
from tidemill.intake.sources.websub import WebSubSource, compute_renewal, to_json_lines

__all__ = ["FolderSource", "TcpSource", "WebSubSource", "compute_renewal", "to_json_lines"]
