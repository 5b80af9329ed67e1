"""Functions for the Snakemake rules, and what Snakemake shows of plans and runs.

No module here imports an array library, so that planning is fast.
"""
