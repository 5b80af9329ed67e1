"""Training: a task-agnostic loop and the parts it is made of."""
