"""Data sources that a server polls or subscribes to: TCP addresses, folders and WebSub hubs."""

from tidemill.intake.sources.folder import FolderSource
from tidemill.intake.sources.tcp import TcpSource
from tidemill.intake.sources.websub import WebSubSource, compute_renewal, to_json_lines

__all__ = ["FolderSource", "TcpSource", "WebSubSource", "compute_renewal", "to_json_lines"]
