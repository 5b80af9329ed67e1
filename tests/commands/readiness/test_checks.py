"""Conclusion of `vrtspike doctor`, inside and outside of a project."""

from __future__ import annotations

import pytest

from vrtspike.commands.readiness.check import Check
from vrtspike.commands.readiness.checks import MACHINE_TITLE, all_checks, show_checks
from vrtspike.commands.readiness.project_checks import PRESETS_TITLE

SOUND, WRONG, ABSENT = (
    Check("a", "ok", "well"),
    Check("b", "broken", "no", "do"),
    Check("c", "missing", "none"),
)


@pytest.mark.parametrize(
    ("machine", "presets", "ending", "is_sound"),
    [
        (SOUND, SOUND, "ready: snakemake --cores all demo, and your presets", True),
        (SOUND, ABSENT, "ready: snakemake --cores all demo; your presets need first: c", True),
        (SOUND, WRONG, "ready: snakemake --cores all demo; your presets need first: b", False),
        (WRONG, ABSENT, "fix first: b", False),
    ],
)
def test_the_last_line_is_the_conclusion(machine, presets, ending, is_sound):
    lines = []
    checks = [MACHINE_TITLE, machine, PRESETS_TITLE, presets]
    assert show_checks(iter(checks), lines.append) is is_sound
    assert lines[-1] == ending
    if presets is WRONG:
        assert lines[1:5] == ["✓ a: well", "your presets (PRESETS):", "✗ b: no", "    -> do"]
    assert [line for line in lines if line.endswith(":")] == [
        "every command, the demo too:", "your presets (PRESETS):",
    ]  # fmt: skip


def test_outside_of_a_project_only_the_machine_is_ready(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []
    assert show_checks(all_checks([], []), lines.append)
    assert f"{tmp_path} is not the project's folder" in lines[-2]
    assert lines[-1].startswith("the machine is ready; configuration, data and weights were not")
