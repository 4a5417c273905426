"""Run queries of the corpus and print their outcomes: python -m tests.oracle.corpus [FILE.sql|NAME …]."""

from __future__ import annotations

import sys

from tests.oracle.corpus.harness import read_queries, refresh_and_compare

from tidemill.spark import session


def main(arguments: list[str]) -> int:
    files = [name.removesuffix(".sql") for name in arguments if name.endswith(".sql")]
    names = {name for name in arguments if not name.endswith(".sql")}
    queries = {name: text for name, text in read_queries(*files).items() if not names or name in names}
    quick = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    spark = session.start_session("local[2]", {**quick, "spark.sql.adaptive.enabled": "false"})
    outcomes = refresh_and_compare(spark, queries)
    wrong = sum(bool(outcome.problems) for outcome in outcomes.values())
    print(f"{len(outcomes)} queries, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
