"""Warnings at the line of a program that called the package."""

from __future__ import annotations

import inspect
import warnings

_PACKAGE = __name__.partition(".")[0]


def warn_caller(message: str) -> None:
    """Warn at the innermost line outside the package, however deep in it this is called.

    ``warnings.warn`` does the same with ``skip_file_prefixes``, but not in Python 3.11.
    """
    level = 1
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
