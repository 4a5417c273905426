"""Traces over several derivation steps, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.model.block import Block, BlockOrigin
from tidemill.runtime.inspect import block_trace
from tidemill.runtime.inspect.block_trace import BlockTrace, trace_block
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.runs.requests import request_flow_run


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    """A chain of two tables, and a diamond: `pairs` reads the first and the last of them."""
    wf = tm.Workflow("chain")
    wf.input("lines", "id bigint, word string")
    for name, query in (
        ("words", "SELECT id, word FROM lines"),
        ("long_words", "SELECT id, word FROM words"),
        ("pairs", "SELECT w.id, l.word FROM words w JOIN long_words l ON w.id = l.id"),
    ):
        wf.table(name, "id bigint, word string")
        wf.sql(name, query, refresh="batch")
    mill = Mill(wf.build_spec(), tmp_path)
    yield mill
    mill.close()


def refresh_all(mill: Mill) -> None:
    for flow in ("words", "long_words", "pairs"):
        mill.attempt(request_flow_run(mill.catalog, flow))


def find_block(mill: Mill, channel: str) -> Block:
    return mill.catalog.blocks.list(channel)[0]


def list_source_steps(trace: BlockTrace) -> list[tuple[int, str]]:
    return sorted((s.step, s.channel) for s in trace.sources)


def list_derived_steps(trace: BlockTrace) -> list[tuple[int, str]]:
    return sorted((d.step, b.channel) for b, d in zip(trace.derived, trace.derivations, strict=True))


def test_sources_are_followed_back_to_the_inserted_blocks(mill: Mill) -> None:
    mill.insert("lines", "1,a")
    refresh_all(mill)
    pairs, long_words = find_block(mill, "pairs"), find_block(mill, "long_words")
    one = trace_block(mill.catalog, pairs.id)
    assert list_source_steps(one) == [(1, "long_words"), (1, "words")]
    assert {s.derived_blocks for s in one.sources} == {(pairs.id,)}
    all_steps = trace_block(mill.catalog, pairs.id, depth=9)
    assert list_source_steps(all_steps) == [(1, "long_words"), (1, "words"), (2, "lines"), (2, "words")]
    (second,) = (s for s in all_steps.sources if (s.step, s.channel) == (2, "words"))
    assert second.derived_blocks == (long_words.id,)
    (inserted,) = (b for s in all_steps.sources if s.channel == "lines" for b in s.blocks if b.rows)
    assert inserted.origin is BlockOrigin.INSERT
    assert all_steps.is_complete


def test_derived_blocks_are_followed_to_the_last(mill: Mill) -> None:
    mill.insert("lines", "1,a")
    refresh_all(mill)
    inserted, words = find_block(mill, "lines"), find_block(mill, "words")
    assert list_derived_steps(trace_block(mill.catalog, inserted.id)) == [(1, "words")]
    trace = trace_block(mill.catalog, inserted.id, depth=2)
    assert list_derived_steps(trace) == [(1, "words"), (2, "long_words"), (2, "pairs")]
    assert {d.source_blocks for d in trace.derivations if d.step == 2} == {(words.id,)}
    assert list_derived_steps(trace_block(mill.catalog, inserted.id, depth=9)) == list_derived_steps(trace)


def test_a_compacted_block_leads_to_the_blocks_that_it_merges(mill: Mill) -> None:
    for number in range(3):
        mill.insert("lines", f"{number},a")
    compacted = Compactor(mill.executor, {}).compact_major("lines")
    assert compacted is not None
    (source,) = trace_block(mill.catalog, compacted.id, depth=2).sources
    assert [(b.seq, b.origin) for b in source.blocks] == [(n, BlockOrigin.INSERT) for n in (1, 2, 3)]
    assert (source.step, source.derived_blocks, source.expired) == (1, (compacted.id,), False)


def test_a_trace_ends_before_it_has_too_many_blocks(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_trace, "MAX_TRACED_BLOCKS", 2)
    mill.insert("lines", "1,a")
    refresh_all(mill)
    trace = trace_block(mill.catalog, find_block(mill, "pairs").id, depth=9)
    assert not trace.is_complete
    assert {s.step for s in trace.sources} == {1}
