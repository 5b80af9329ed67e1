"""What the workflow asks while it plans: of the configuration, the raw data, runs and code.

The rules call these functions; none needs an array library, so that a plan is there at once.
"""
