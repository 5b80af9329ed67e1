"""The calls for notebooks: each does the work of a command or of a stage, and returns an object."""
