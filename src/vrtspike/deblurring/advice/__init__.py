"""Presets, batches and hours of a training for a machine and its data; advice on its runs."""
