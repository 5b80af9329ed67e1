"""Batch systems and their jobs, asked so that nothing waits for ever."""
