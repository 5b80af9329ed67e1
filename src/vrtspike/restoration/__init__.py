"""Trained models on recordings: frames of any size, files and folders, spikes of any sensor."""
