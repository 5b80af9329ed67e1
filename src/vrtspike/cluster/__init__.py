"""Batch systems."""
