"""Generated news: a few sites, each with a template, report the same stories; pages are crawled repeatedly."""

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

_VOCABULARY = """
    harbour council river bridge tide engine market field winter signal garden letter storm copper window paper
    valley island morning train school bread museum forest summer record captain station light budget minister
    election coast railway factory concert library doctor village orchard festival theatre
"""
_WORDS = tuple(_VOCABULARY.split())


@dataclass(frozen=True, slots=True)
class Article:
    url: str
    site: str
    body: str


def generate_batches(count: int, size: int, seed: int = 7) -> Iterator[list[Article]]:
    """`count` batches of about `size` articles; the same seed generates the same news."""
    rng = random.Random(seed)
    sites = [f"site{i}.example" for i in range(6)]
    lengths = (rng.randint(3, 6) for _ in range(count * size // 3))
    stories = [[" ".join(rng.choices(_WORDS, k=12)) for _ in range(length)] for length in lengths]
    crawled: list[Article] = []
    for number in range(count):
        batch = [_generate_article(rng, sites, stories, number) for _ in range(size)]
        batch += _recrawl_pages(rng, crawled, size // 10)
        crawled += batch
        yield list({a.url: a for a in batch}.values())


def write_articles(articles: list[Article], path: Path) -> Path:
    lines = (json.dumps(asdict(article)) for article in articles)
    path.write_text("".join(line + "\n" for line in lines))
    return path


def _generate_article(rng: random.Random, sites: list[str], stories: list[list[str]], batch: int) -> Article:
    site = rng.choice(sites)
    story = rng.randrange(len(stories))
    season = "spring" if batch < 3 or site < "site3" else "autumn"  # half of the sites redesign their pages meanwhile
    header, footer = f"{site} {season} edition home sports weather", f"copyright {site} {season} all rights reserved"
    return Article(f"https://{site}/{batch}/{story}", site, "\n".join([header, *stories[story], footer]))


def _recrawl_pages(rng: random.Random, crawled: list[Article], count: int) -> list[Article]:
    """Pages crawled again, a third of them edited meanwhile."""
    pages = rng.sample(crawled, min(count, len(crawled)))
    updates = ("\nupdate " + " ".join(rng.choices(_WORDS, k=8)) if i % 3 == 0 else "" for i in range(len(pages)))
    return [replace(a, body=a.body + update) for a, update in zip(pages, updates, strict=True)]
