"""Batch systems, torchrun and GPUs."""
