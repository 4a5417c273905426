"""Tags of the results that a task derives from an event."""

from tidemill.model.wave import LineageStep, LineageTag


def derive_tags(tag: LineageTag, count: int) -> list[LineageTag]:
    """The tags of so many results. Without results, the event ended."""
    return [LineageTag(tag.root, (*tag.path, LineageStep(n, n == count))) for n in range(1, count + 1)]
