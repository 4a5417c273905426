"""The web pages of a project: its status as a graph, tables and charts."""
