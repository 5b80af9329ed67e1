"""Findings in the logs of a run: conditions, texts, and the advice of its task."""
