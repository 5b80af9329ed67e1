"""From a run's logs to tables, plots, findings and a proposed preset."""
