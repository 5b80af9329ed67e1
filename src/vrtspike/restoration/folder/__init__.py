"""A restored folder: its request, frames, videos, figures and record."""
