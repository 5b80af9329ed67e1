"""Every check of a sequence, and the calibration of cameras."""
