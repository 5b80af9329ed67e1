"""Functions for the Snakemake rules, and what Snakemake shows of plans and runs.

None imports an array library, so that plans are fast.
"""
