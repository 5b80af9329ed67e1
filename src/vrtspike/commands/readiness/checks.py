"""``vrtspike doctor``: checks of the machine and of the project."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from vrtspike.commands.readiness.check import Check, CheckState
from vrtspike.commands.readiness.machine_checks import (
    compiler_check,
    packages_check,
    shared_memory_check,
    torch_checks,
    which_check,
)
from vrtspike.commands.readiness.project_checks import PRESETS_TITLE, project_checks
from vrtspike.deblurring.advice.hardware import find_gpus
from vrtspike.system.home import DEMO_COMMAND
from vrtspike.system.user_environment import environment_faults

MACHINE_TITLE = "every command, the demo too"
"""Title of the checks of what every command needs."""
_MARKS: dict[CheckState, str] = {"ok": "✓", "note": "·", "missing": "○", "broken": "✗"}


def all_checks(configfiles: Sequence[Path], overrides: Sequence[str]) -> Iterator[Check | str]:
    """Check machine and project.

    Outside of a project's folder only the machine is checked.

    Yields:
        checks, and titles before groups of checks.
    """
    yield MACHINE_TITLE
    gpu = find_gpus()
    yield Check("Python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield packages_check()
    yield from torch_checks(gpu)
    if gpu is not None:
        yield compiler_check()
    yield from which_check()
    for reason in environment_faults():
        cure = "set HOME or XDG_CACHE_HOME to a folder of yours; fix permissions"
        yield Check("user and folders", "broken", reason, cure)
    yield shared_memory_check()
    if Path("config/config.yaml").is_file() or configfiles:
        yield from project_checks(configfiles, overrides)
    else:
        yield Check(
            "project",
            "note",
            f"{Path.cwd()} is not the project's folder: configuration, data and weights are not "
            "checked",
        )


def show_checks(checks: Iterator[Check | str], show: Callable[[str], None]) -> bool:
    """Show every result, and at the end what is ready.

    Args:
        checks: checks, and titles before groups of checks.
        show: function called with each line.

    Returns:
        true if nothing is broken.
    """
    title = MACHINE_TITLE
    results: list[tuple[str, Check]] = []
    for check in checks:
        if isinstance(check, str):
            title = check
            show(f"{title}:")
            continue
        results.append((title, check))
        show(f"{_MARKS[check.state]} {check.name}: {check.detail}")
        if check.cure:
            show(f"    -> {check.cure}")
    show(_conclusion(results))
    return all(check.state != "broken" for _, check in results)


def _conclusion(results: Sequence[tuple[str, Check]]) -> str:
    """Return the last line: what is ready, or what to fix first.

    Args:
        results: the checks with the titles of their groups.
    """
    broken = [check.name for _, check in results if check.state == "broken"]
    missing = [check.name for _, check in results if check.state == "missing"]
    if any(title == MACHINE_TITLE and check.state == "broken" for title, check in results):
        return f"fix first: {', '.join(broken)}"
    if broken or missing:
        return f"ready: {DEMO_COMMAND}; your presets need first: {', '.join([*broken, *missing])}"
    if not any(title == PRESETS_TITLE for title, _ in results):
        return (
            "the machine is ready; configuration, data and weights were not checked: go to the "
            "project's folder and run this there"
        )
    return f"ready: {DEMO_COMMAND}, and your presets"
