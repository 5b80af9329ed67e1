"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "broken"]


@dataclass(frozen=True)
class Check:
    """What was looked at.

    Attributes:
        name: of it.
        state: ``note`` is nothing wrong, but good to know.
        found: what there is.
        mend: what to do; empty where there is nothing to do.
    """

    name: str
    state: State
    found: str
    mend: str = ""
