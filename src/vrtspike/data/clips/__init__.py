"""Clips of a split: crops, augmentation and batches."""
