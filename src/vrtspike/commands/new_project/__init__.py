"""A new project: its files, and a first look at its data."""
