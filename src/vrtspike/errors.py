"""The errors a user can cause and can mend.

Each message names the file, key or frame, what was found, what was expected and what to do.
Programs print such an error without a traceback and exit with :data:`EXIT_USER_ERROR`; everything
else is a defect of this project and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence

EXIT_USER_ERROR = 2


class UserError(Exception):
    """Something the user gave cannot be used as it is."""


class ConfigError(UserError):
    """A configuration file, a preset or an override is wrong."""


class DataError(UserError):
    """A raw file, a sequence or a store is missing, broken or does not match its partner."""


class RunError(UserError):
    """A training run cannot start, continue or be read."""


def list_faults(title: str, faults: Sequence[str], advice: str) -> str:
    """One message for many faults: a title with their number, a line each, and what to do."""
    lines = "\n".join(f"  - {fault}" for fault in faults)
    return f"{title} ({len(faults)}):\n{lines}\n{advice}"
