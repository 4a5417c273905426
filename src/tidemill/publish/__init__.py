"""What Tidemill tells the outside: notices by webhook, e-mail and log."""

from tidemill.publish.mail import Mail
from tidemill.publish.notify import Notifier, receivers
from tidemill.publish.webhook import Webhook

__all__ = ["Mail", "Notifier", "Webhook", "receivers"]
