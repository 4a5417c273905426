"""The search preprocessing workflow and its data: crawled pages ranked by the number of users that click on their site.

Sites are drawn by Zipf's law, so that few of them have most of the pages and clicks. Every row is a function of its
number: the same sizes give the same data on any machine and with any partitioning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import tidemill as tm

PAGES = "url string, site string, digest string"
CLICKS = "user bigint, site string, at timestamp"
SCORES = "SELECT site, ln(1 + count(DISTINCT user)) AS score FROM clicks GROUP BY site"
RANKED = "SELECT p.url, p.site, p.digest, s.score FROM pages p JOIN scores s ON p.site = s.site"
TABLES = ("scores", "ranked")
INPUTS = ("pages", "clicks")

_CLICKS_PER_PAGE = 5
_BITS = 53  # of a double's fraction
_EPOCH = 1_700_000_000


def build_workflow() -> tm.Workflow:
    spec = tm.Workflow("search")
    spec.input("pages", PAGES, key="url")
    spec.input("clicks", CLICKS)
    spec.sql("scores", SCORES)
    spec.sql("ranked", RANKED)
    return spec


def recompute(spark: SparkSession, inputs: Path, output: Path) -> None:
    """The same ranking in plain PySpark, as one plan from Parquet files to Parquet files."""
    pages = spark.read.schema(PAGES).parquet(str(inputs / "pages"))
    clicks = spark.read.schema(CLICKS).parquet(str(inputs / "clicks"))
    scores = clicks.groupBy("site").agg(F.ln(1 + F.count_distinct("user")).alias("score"))
    ranked = pages.join(F.broadcast(scores), "site").select("url", "site", "digest", "score")
    ranked.write.parquet(str(output))


@dataclass(frozen=True, slots=True)
class Web:
    """Generated pages and clicks. Batch 0 is the first crawl; each later batch changes a share of it."""

    spark: SparkSession
    pages: int
    share: float  # of the pages and clicks in each later batch

    def create_batch(self, number: int) -> dict[str, DataFrame]:
        """The rows of a batch for each input."""
        if number == 0:
            return {
                "pages": self._create_pages(self.spark.range(self.pages), 0),
                "clicks": self._create_clicks(0, self.clicks),
            }
        return {"pages": self._create_crawl(number), "clicks": self._create_further_clicks(number)}

    @property
    def clicks(self) -> int:
        return self.pages * _CLICKS_PER_PAGE

    @property
    def sites(self) -> int:
        return max(2, self.pages // 50)

    @property
    def users(self) -> int:
        return max(10, self.pages // 10)

    def _create_crawl(self, number: int) -> DataFrame:
        """Half new pages, half old pages with changed text, spread evenly over the first crawl."""
        changed = max(2, round(self.pages * self.share))
        old, new = changed // 2, changed - changed // 2
        step = max(1, self.pages // old)
        first = self.pages + (number - 1) * new
        recrawled = self.spark.range(old).select((F.col("id") * step + number % step).alias("id"))
        return self._create_pages(recrawled.unionAll(self.spark.range(first, first + new)), number)

    def _create_further_clicks(self, number: int) -> DataFrame:
        count = max(1, round(self.clicks * self.share))
        return self._create_clicks(self.clicks + (number - 1) * count, count)

    def _create_pages(self, ids: DataFrame, crawl: int) -> DataFrame:
        site = self._draw_site("page")
        return ids.select(
            F.concat(F.lit("https://"), site, F.lit("/"), "id").alias("url"),
            site.alias("site"),
            F.sha2(F.concat_ws(" ", "id", F.lit(crawl)), 256).alias("digest"),
        )

    def _create_clicks(self, first: int, count: int) -> DataFrame:
        return self.spark.range(first, first + count).select(
            F.floor(_draw_uniform("user") * self.users).alias("user"),
            self._draw_site("click").alias("site"),
            F.timestamp_seconds(F.col("id") + _EPOCH).alias("at"),
        )

    def _draw_site(self, salt: str) -> Column:
        """Site k with a probability proportional to 1/k, by the inverse of its cumulative distribution."""
        rank = F.floor(F.pow(F.lit(float(self.sites + 1)), _draw_uniform(salt)))
        return F.concat(F.lit("site"), rank)


def _draw_uniform(salt: str) -> Column:
    """A number in [0, 1) computed from the row's `id`; numbers of different salts are independent."""
    return F.xxhash64("id", F.lit(salt)).bitwiseAND(F.lit(2**_BITS - 1)) / F.lit(float(2**_BITS))
