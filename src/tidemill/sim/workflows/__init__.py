"""Three workflows of a web search engine, as in Olston's paper on asynchronous incremental workflows."""

from tidemill.sim.scenario import Scenario
from tidemill.sim.workflows.crawl import CRAWL
from tidemill.sim.workflows.feedback import FEEDBACK
from tidemill.sim.workflows.search import SEARCH

WORKFLOWS: tuple[Scenario, ...] = (SEARCH, FEEDBACK, CRAWL)
