"""Analysis of runs: tables, plots, findings, a proposed preset, and comparisons."""
