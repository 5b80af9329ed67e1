"""Voxel grids: bins of an exposure, counts, the gain of a sensor, normalisation."""
