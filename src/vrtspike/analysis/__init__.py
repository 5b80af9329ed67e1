"""Analysis of runs: tables, plots, findings, and comparisons."""
