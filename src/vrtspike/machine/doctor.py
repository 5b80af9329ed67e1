"""Whether a machine and a configuration are ready: every check with what was found and the mend."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from vrtspike.machine.check import Check, State
from vrtspike.machine.machine_checks import machine_checks
from vrtspike.machine.project_checks import project_checks


def all_checks(configfiles: Sequence[Path], overrides: Sequence[str]) -> Iterator[Check]:
    """Machine and project; outside of a project the machine alone."""
    yield from machine_checks()
    if Path("config/config.yaml").is_file() or configfiles:
        yield from project_checks(configfiles, overrides)
    else:
        yield Check(
            "project",
            "note",
            f"{Path.cwd()} is not the project's folder: configuration, data and weights are not "
            "checked",
        )


def show_checks(checks: Iterator[Check], show: Callable[[str], None]) -> int:
    """Tell every check as it is done; returns how many are broken."""
    marks = _marks(sys.stdout.encoding)
    broken = 0
    for check in checks:
        broken += check.state == "broken"
        show(f"{marks[check.state]} {check.name}: {check.found}")
        if check.mend:
            show(f"    -> {check.mend}")
    return broken


def _marks(encoding: str | None) -> dict[State, str]:
    """Tick, dot and cross, or words where the terminal does not know these."""
    marks: dict[State, str] = {"ok": "✓", "note": "·", "broken": "✗"}
    with contextlib.suppress(UnicodeEncodeError, LookupError):
        "".join(marks.values()).encode(encoding or "ascii")
        return marks
    return {"ok": "[ok]", "note": "[--]", "broken": "[no]"}
