"""Outgoing messages: notices by webhook, e-mail and log, and deliveries of new blocks."""

from tidemill.publish.blocks import BlockDelivery, BlockMail, BlockReceiver, BlockWebhook, DeliveryPart
from tidemill.publish.mail import MailReceiver, SmtpMailer
from tidemill.publish.notify import Notifier, build_receivers
from tidemill.publish.webhook import WebhookReceiver

__all__ = [
    "BlockDelivery",
    "BlockMail",
    "BlockReceiver",
    "BlockWebhook",
    "DeliveryPart",
    "MailReceiver",
    "Notifier",
    "SmtpMailer",
    "WebhookReceiver",
    "build_receivers",
]
