"""Local execution of small steps on the driver, with Arrow."""
