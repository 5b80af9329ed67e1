"""Names that figures of forecasts have everywhere."""

from __future__ import annotations

RMSE, CORRELATION = "rmse", "acc"
"""Root of the mean squared error in kelvin; anomaly correlation."""

MODEL, PERSISTENCE, CLIMATOLOGY = "model", "persistence", "climatology"
METHODS = (MODEL, PERSISTENCE, CLIMATOLOGY)
"""Forecasts that are compared: the two others cost nothing."""
