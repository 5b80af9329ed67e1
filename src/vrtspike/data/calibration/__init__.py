"""Calibration of a frame camera next to a spike sensor: their homography, and their time offset."""
