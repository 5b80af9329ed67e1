"""Results of the checks of ``vrtspike doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckState = Literal["ok", "note", "missing", "broken"]


@dataclass(frozen=True)
class Check:
    """The result of a check.

    Attributes:
        name: name of the check.
        state: ``note``: information; ``missing``: must be provided or downloaded.
        detail: versions, sizes, or the fault.
        cure: advice; may be empty.
    """

    name: str
    state: CheckState
    detail: str
    cure: str = ""


def without_advice(error: object) -> str:
    """Return an error message without its advice; the check gives its own."""
    return str(error).splitlines()[0].split("; ")[0]
