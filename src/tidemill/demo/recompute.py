"""The demonstration's result recomputed in plain Python, with the templates that each block's provenance names."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from tidemill.app.wiring import Tidemill
from tidemill.demo.workflow import SHINGLE, SKETCH
from tidemill.model.block import Block, BlockKind, BlockOrigin

Row = Mapping[str, str]
Templates = set[tuple[str, str]]


def compute_unique_articles(mill: Tidemill) -> Counter[tuple[str, str]]:
    """The expected content of `unique_articles`: (url, digest) pairs."""
    arrivals = _read_arrivals(mill)
    templates_by_version: dict[int | None, Templates] = {None: set()}
    known_digests: set[str] = set()
    unique: Counter[tuple[str, str]] = Counter()
    for block in _list_deltas(mill, "tagged"):
        version_used = _get_single_version(block.target[("articles", "templates")])
        if version_used not in templates_by_version:
            known = (rows for version, rows in arrivals.items() if version <= (version_used or 0))
            templates_by_version[version_used] = _detect_templates(chain.from_iterable(known))
        since, upto = (_get_single_version(point[("articles",)]) or 0 for point in (block.source, block.target))
        batch = [r for version, rows in arrivals.items() if since < version <= upto for r in rows]
        first = _find_first_urls(batch, templates_by_version[version_used])
        unseen = {digest: url for digest, url in first.items() if digest not in known_digests}
        unique.update((url, digest) for digest, url in unseen.items())
        known_digests |= unseen.keys()
    return unique


def _read_arrivals(mill: Tidemill) -> dict[int, list[Row]]:
    """The rows of each version of the articles, in order: the rows that each block added to the content."""
    arrivals: dict[int, list[Row]] = {}
    before: Counter[tuple[str, str, str]] = Counter()
    for block in _list_deltas(mill, "articles"):
        rows = Counter((r["url"], r["site"], r["body"]) for r in mill.rows("articles", as_of=str(block.seq)))
        added = (rows - before).elements()
        arrivals[block.version or 0] = [dict(zip(("url", "site", "body"), r, strict=True)) for r in added]
        before = rows
    return arrivals


def _list_deltas(mill: Tidemill, channel: str) -> list[Block]:
    blocks = mill.catalog.blocks.list(channel, limit=100_000)
    deltas = (b for b in blocks if b.kind is BlockKind.DELTA and b.origin is not BlockOrigin.COMPACTION)
    return sorted(deltas, key=lambda b: b.seq)


def _get_single_version(versions: Iterable[int]) -> int | None:
    """The only version that a delta reflects on a pathway; None if it reflects none."""
    items = list(versions)
    if len(items) > 1:
        raise AssertionError(f"a delta of one run reflects one version of each input, not {items}")
    return items[0] if items else None


def _detect_templates(articles: Iterable[Row]) -> Templates:
    urls: dict[str, set[str]] = defaultdict(set)
    shared: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in articles:
        urls[row["site"]].add(row["url"])
        for line in row["body"].split("\n"):
            shared[row["site"], line].add(row["url"])
    large = {site: len(pages) for site, pages in urls.items() if len(pages) >= 3}
    return {key for key, pages in shared.items() if key[0] in large and len(pages) * 2 > large[key[0]]}


def _find_first_urls(articles: Sequence[Row], templates: Templates) -> dict[str, str]:
    first: dict[str, str] = {}
    for row in articles:
        lines = [line for line in row["body"].split("\n") if (row["site"], line) not in templates]
        digest = _compute_digest("\n".join(lines))
        first[digest] = min(first.get(digest, row["url"]), row["url"])
    return first


def _compute_digest(content: str) -> str:
    words = re.sub(r"\W+", " ", content).strip(" ").lower().split(" ")
    starts = range(max(len(words) - SHINGLE + 1, 1))
    sketch = sorted({_hash_text(" ".join(words[start : start + SHINGLE])) for start in starts})[:SKETCH]
    return _hash_text(" ".join(sketch))


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
