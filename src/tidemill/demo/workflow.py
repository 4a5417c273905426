"""News de-duplication: articles arrive in batches, and each story shall appear once.

Sites wrap the same story in different templates. Template detection reads all articles and runs occasionally; the
pipeline reads new articles, and uses the templates that were known when it ran.
"""

from pyspark.sql import functions as F

import tidemill as tm

SHINGLE = 4  # words
SKETCH = 8  # the smallest hashes represent the text

news = tm.Workflow("news")
news.input("articles", "url string, site string, body string")
news.table("templates", "site string, line string")
news.table("tagged", "url string, site string, content string")
news.table("shingled", "url string, digest string")
news.table("unique_articles", "url string, digest string")
news.table("seen", "digest string")


@news.task
def templates(articles: tm.All) -> tm.Base:
    """A line that most articles of a site share belongs to its template."""
    lines = articles.select("site", "url", F.explode(F.split("body", "\n")).alias("line")).distinct()
    sizes = articles.groupBy("site").agg(F.countDistinct("url").alias("articles"))
    counts = lines.groupBy("site", "line").agg(F.count("*").alias("pages")).join(sizes, "site")
    return counts.where("articles >= 3 AND pages * 2 > articles").select("site", "line")


pipeline = tm.Flow("pipeline")


@pipeline.task
def tagged(articles: tm.New, templates: tm.All) -> tm.Delta:
    """The text of each new article without the lines of its site's template."""
    known = templates.groupBy("site").agg(F.collect_set("line").alias("template"))
    lines = F.split("body", "\n")
    content = F.filter(lines, lambda line: ~F.array_contains(F.coalesce("template", F.array()), line))
    return articles.join(known, "site", "left").select("url", "site", F.concat_ws("\n", content).alias("content"))


@pipeline.task
def shingled(tagged: tm.New) -> tm.Delta:
    """A digest of each text that depends on its sequences of words only."""
    words = F.split(F.lower(F.trim(F.regexp_replace("content", r"\W+", " "))), " ")
    starts = F.sequence(F.lit(1), F.greatest(F.size(words) - SHINGLE + 1, F.lit(1)))
    shingles = F.transform(starts, lambda start: F.sha2(F.array_join(F.slice(words, start, SHINGLE), " "), 256))
    sketch = F.slice(F.array_sort(F.array_distinct(shingles)), 1, SKETCH)
    return tagged.select("url", F.sha2(F.array_join(sketch, " "), 256).alias("digest"))


@pipeline.task(writes={"unique_articles": tm.Delta, "seen": tm.Delta})
def deduped(shingled: tm.New, seen: tm.All) -> dict[str, tm.Delta]:
    """One article for each new digest, and the digest recorded as seen."""
    first = shingled.groupBy("digest").agg(F.min("url").alias("url"))
    fresh = first.join(seen, "digest", "left_anti").cache()
    return {"unique_articles": fresh.select("url", "digest"), "seen": fresh.select("digest")}


news.bind(pipeline)
