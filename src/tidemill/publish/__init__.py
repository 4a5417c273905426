"""Outgoing messages: notices by webhook, e-mail and log, and deliveries of new blocks."""
