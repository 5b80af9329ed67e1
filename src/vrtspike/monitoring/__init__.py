"""Monitoring of runs: time per section, memory, logs, terminal output."""
