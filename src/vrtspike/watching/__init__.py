"""What a person sees of a workflow: a line per stage, errors with the end of their log, how to go on."""
