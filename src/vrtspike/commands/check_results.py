"""Results of the checks of ``vrtspike doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vrtspike.config.texts import fill_texts, packaged_texts

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


def fault(symptom: str, detail: str, state: CheckState = "broken", **values: object) -> Check:
    """Return the result of a failed check, with the texts of ``checks.yaml``.

    Args:
        symptom: name of the entry in ``checks.yaml``.
        detail: sentence that says what was found.
        state: state of the result.
        values: values for the texts.
    """
    entry = fill_texts(packaged_texts(__package__, "checks.yaml")[symptom], **values)
    return Check(entry["check"], state, detail, entry["cure"])


def without_advice(error: object) -> str:
    """Return an error message without its advice, because the check has its own."""
    return str(error).splitlines()[0].split("; ")[0]
