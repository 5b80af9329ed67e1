"""What a machine and its data allow: checks of what is there, and advice on what to run."""
