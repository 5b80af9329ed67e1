"""Trained weights on whole frames: tiles, figures, pictures, videos."""
