"""Figures and HTML tables."""
