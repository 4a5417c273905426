"""What Tidemill tells the outside: notices by webhook, e-mail and log; new blocks to whoever takes them."""

from tidemill.publish.blocks import BlockHook, BlockMail, Delivery, Part, Takes
from tidemill.publish.mail import Mail, Postbox
from tidemill.publish.notify import Notifier, receivers
from tidemill.publish.webhook import Webhook

__all__ = [
    "BlockHook",
    "BlockMail",
    "Delivery",
    "Mail",
    "Notifier",
    "Part",
    "Postbox",
    "Takes",
    "Webhook",
    "receivers",
]
