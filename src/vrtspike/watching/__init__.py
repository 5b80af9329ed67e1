"""What a person sees of a workflow: a line per stage, the end of a failed job's log, last lines."""
