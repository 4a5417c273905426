"""Streaming gzip decompression in chunks of bounded size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from tidemill.errors import BadInput

_CHUNK_BYTES = 1 << 20  # bytes that are decompressed at once: a decompression bomb is counted after each chunk
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
        self._started = False

    def decompress_chunk(self, data: bytes) -> Iterator[bytes]:
        """The decompressed chunks of the next compressed bytes."""
        while data:
            if self._member.eof:
                self._member, self._started = zlib.decompressobj(_GZIP), False
            self._started = True
            try:
                chunk = self._member.decompress(data, _CHUNK_BYTES)
            except zlib.error as error:
                raise BadInput(f"the upload is not valid gzip ({error}). Nothing was inserted") from error
            yield chunk
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if not data and not self._member.eof and len(chunk) == _CHUNK_BYTES:
                # All input is consumed, but it may decompress to more than one chunk.
                yield from self._drain_output()

    def finish(self) -> None:
        if self._started and not self._member.eof:
            raise BadInput("the gzip upload is truncated. Nothing was inserted")

    def _drain_output(self) -> Iterator[bytes]:
        while chunk := self._member.decompress(b"", _CHUNK_BYTES):
            yield chunk
