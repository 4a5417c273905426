"""Names of the variants of a declared table: a refresh mode, or `incremental:CHANNEL`.

The latter reads the changes of a single channel, and the other channels as they were last consumed.
"""

from __future__ import annotations

from tidemill.algebra.program import RefreshMode

_SEPARATOR = ":"


def format_variant_name(channel: str) -> str:
    """Return the name of the variant that consumes the changes of one channel only."""
    return f"{RefreshMode.INCREMENTAL}{_SEPARATOR}{channel}"


def get_mode(variant: str) -> str:
    """Return the refresh mode of a variant; that of a programmed one is its name.

    >>> get_mode("incremental:pages"), get_mode("batch")
    ('incremental', 'batch')
    """
    return variant.split(_SEPARATOR, 1)[0]


def find_single_channel(variant: str) -> str | None:
    """Return the channel of a variant that consumes the changes of one channel only; None for others.

    >>> find_single_channel("incremental:pages"), find_single_channel("incremental")
    ('pages', None)
    """
    mode, _, channel = variant.partition(_SEPARATOR)
    return channel if mode == RefreshMode.INCREMENTAL and channel else None
