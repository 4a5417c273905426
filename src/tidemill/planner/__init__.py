"""The planner: finds the cheapest plan that meets the freshness targets."""
