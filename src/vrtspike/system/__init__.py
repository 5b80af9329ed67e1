"""Errors that a user can fix, command lines, processes, exit status, the workflow's folder."""
