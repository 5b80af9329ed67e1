"""Zarr stores of sequences: voxels and gain."""
