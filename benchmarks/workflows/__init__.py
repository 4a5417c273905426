"""Three workflows of a web search engine, from Olston's paper on asynchronous incremental workflows."""

from benchmarks.workflows.crawl import CRAWL
from benchmarks.workflows.feedback import FEEDBACK
from benchmarks.workflows.scenario import Scenario
from benchmarks.workflows.search import SEARCH

WORKFLOWS: tuple[Scenario, ...] = (SEARCH, FEEDBACK, CRAWL)
