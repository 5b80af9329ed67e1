"""From trained weights to figures and pictures: metrics, tiling, restoring, reports."""
