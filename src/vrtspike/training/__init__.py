"""Training: a loop for any objective, and its parts."""
