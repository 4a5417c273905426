"""The engine on Spark. No other package imports Spark."""
