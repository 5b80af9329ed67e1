"""Blurry frames and spikes, made from sharp frames."""
