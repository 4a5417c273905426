"""The live system: executing runs, inserting, tidying up. It knows ports, not what stands behind them."""
