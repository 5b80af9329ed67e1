"""A simulated `squeue` with fixed answers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SQUEUE = """\
#!/bin/sh
case "$*" in *%D*) echo 2;; *%L*) echo '8 7:00
7 10:00';; esac
"""


@pytest.fixture
def squeue(tmp_path, monkeypatch) -> Path:
    """A stand-in for squeue with fixed answers."""
    program = tmp_path / "squeue"
    program.write_text(SQUEUE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return program
