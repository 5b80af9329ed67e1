"""Checks without sharp frames: spikes against frames, recordings against the training."""
