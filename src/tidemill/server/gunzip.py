"""Unpacking while it comes in, a bounded piece at a time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from tidemill.errors import BadInput

_PIECE = 1 << 20  # bytes that are unpacked at once: a bomb gets no further than this before somebody counts
_GZIP = 16 + zlib.MAX_WBITS


class GunzipStream:
    """A gzip stream of one or several members.

    >>> import gzip
    >>> stream = GunzipStream()
    >>> b"".join(stream.decompress_chunk(gzip.compress(b"one ") + gzip.compress(b"two")))
    b'one two'
    >>> stream.finish()
    """

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._begun = False

    def decompress_chunk(self, data: bytes) -> Iterator[bytes]:
        """Pieces of what the next packed bytes hold."""
        while data:
            if self._member.eof:
                self._member, self._begun = zlib.decompressobj(_GZIP), False
            self._begun = True
            try:
                piece = self._member.decompress(data, _PIECE)
            except zlib.error as error:
                raise BadInput(f"the upload is no sound gzip ({error}). Nothing was inserted") from error
            yield piece
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if not data and not self._member.eof and len(piece) == _PIECE:
                # All was taken in, and more may come out of it than one piece.
                yield from self._drain_output()

    def finish(self) -> None:
        if self._begun and not self._member.eof:
            raise BadInput("the upload ends in the middle of its gzip. Nothing was inserted")

    def _drain_output(self) -> Iterator[bytes]:
        while piece := self._member.decompress(b"", _PIECE):
            yield piece
