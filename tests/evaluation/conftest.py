"""Fixtures of a small data set and of small runs."""

from __future__ import annotations

from tests.helpers.small_run import sequence, small_run, stored

__all__ = ["sequence", "small_run", "stored"]
