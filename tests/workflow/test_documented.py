"""Every Snakemake command of the documentation, and the examples it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.workflow.project import make_tiny_data

PAGES = (
    "README.md",
    "README.zh-CN.md",
    "docs/tutorial.md",
    "docs/clusters.md",
    "docs/architecture.md",
    "config/README.md",
)


def documented(repository: Path) -> list[str]:
    """The lines of shell blocks that call Snakemake, without placeholders and comments."""
    commands = []
    for page in PAGES:
        text = (repository / page).read_text(encoding="utf-8")
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            if language not in ("", "bash"):
                continue
            lines = [line.split(" #")[0].strip() for line in block.splitlines()]
            commands += [line for line in lines if line.startswith("snakemake")]
    return sorted({line for line in commands if "<" not in line and "my.yaml" not in line})


def example(repository: Path, file: str) -> str:
    """The contents that the tutorial gives a file: the block after the line that names it."""
    text = (repository / "docs/tutorial.md").read_text(encoding="utf-8")
    found = re.search(
        rf"`{re.escape(file)}`[^\n]*\n\n```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None, file
    return found[1]


@pytest.mark.core
@pytest.mark.endurance
@pytest.mark.workflow
def test_every_documented_command_can_be_planned(repository, clone):
    commands = documented(repository)
    assert len(commands) >= 10
    (clone.folder / "data/frames/walk").mkdir(parents=True)
    clone.write("config/sweeps/rates.yaml", example(repository, "config/sweeps/rates.yaml"))
    make_tiny_data(clone.folder / "data/gopro_spike")  # a plan without data is no success
    for command in commands:
        done = clone.snakemake("--dry-run", *shlex.split(command)[1:])
        assert done.returncode == 0, f"{command}\n{done.stdout}"
