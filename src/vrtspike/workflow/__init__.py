"""What the workflow asks while it plans, and what a person sees of a run.

The rules call these functions; none needs an array library, so that a plan is there at once.
"""
