"""What docs/troubleshooting.md quotes is what the programs say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.messages import HOLE, is_printed, templates

FOREIGN = {
    "DataLoader worker … is killed by signal: Bus error",
    "Nothing to be done",
    "torch.OutOfMemoryError: CUDA out of memory",
}
"""Words of other programs."""


def quoted(page: Path) -> list[str]:
    """The cells of the tables' first column that are a message and nothing else."""
    cells = re.findall(r"^\| (.*?) \|", page.read_text("utf-8"), re.MULTILINE)
    spans = [re.fullmatch(r"`([^`]+)`|`` ?(.+?) ?``", cell) for cell in cells]
    messages = [span[1] or span[2] for span in spans if span is not None]
    return [message for message in messages if " " in message and message not in FOREIGN]


@pytest.mark.parametrize("page", ["docs/troubleshooting.md", "docs/zh/troubleshooting.md"])
def test_every_quoted_message_can_be_printed(page, repository):
    messages = quoted(repository / page)
    assert len(messages) >= 50
    assert [m for m in messages if not is_printed(m, repository)] == []


def test_a_message_that_nobody_prints_is_noticed(repository):
    assert is_printed("… voxel bins for … spike frames: bins would be empty", repository)
    assert not is_printed("… voxel bins for … spike frames: bins would be full", repository)
    assert not is_printed("spike frames: bins would be empty … voxel bins for", repository)


def test_values_are_holes_in_a_text(repository):
    assert any(text.startswith(f"{HOLE}: BASE is {HOLE}") for text in templates(repository))
