"""A restored folder: its request, frames, videos, metrics and record."""
