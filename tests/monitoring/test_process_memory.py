"""Processes of a run and memory limits of containers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from vrtspike.monitoring import process_memory
from vrtspike.monitoring.process_memory import processes_of_run, system_memory

# A training with a process of its own, and one of that one's, as multiprocessing starts workers.
PROGRAM = """
import os, subprocess, sys, time
held = bytearray(40 << 20)
subprocess.Popen([sys.executable, "-c", HELPER])
time.sleep(900)
"""
HELPER = "import os, time; os.fork(); print('ready', flush=True); time.sleep(900)"


def test_a_run_is_recognised_by_its_option_with_all_descendants(tmp_path):
    # In a file: its words are not among those of the command line.
    program = tmp_path / "train.py"
    program.write_text(f"HELPER = {HELPER!r}\n{PROGRAM}")
    process = subprocess.Popen(
        [sys.executable, str(program), "--run-dir", tmp_path.name],
        cwd=tmp_path.parent, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        # Two processes write at the same time.
        assert process.stdout.read(len("ready\n") * 2).count("ready") == 2
        result = processes_of_run(tmp_path)
        assert processes_of_run(tmp_path.parent) == []
    finally:
        os.killpg(process.pid, 9)
        process.wait()
    roles = [("training", 0), ("helper", 1), ("worker", 2)]
    assert [(process.role, process.depth) for process in result] == roles
    program, *others = result
    assert program.pid == process.pid
    assert 40 < program.uss < program.pss == program.taken <= program.rss
    assert all(process.uss < 30 for process in others)
    assert [process.gpu for process in result] == [None] * 3


MB = 2**20


@pytest.mark.parametrize(
    ("available", "limit", "expected"),
    [
        (60, None, (100, 40, 60, False)),
        (60, (4, 8), (4, 8, 0, True)),
        (60, (200, 1), (100, 40, 60, False)),
        # A machine may be full before a container's limit is reached.
        (5, (50, 20), (50, 20, 5, True)),
    ],
)
def test_the_container_s_limit_counts_where_it_is_lower(
    tmp_path, monkeypatch, available, limit, expected
):
    memory = SimpleNamespace(
        total=100 * MB, available=available * MB, cached=30 * MB, buffers=2 * MB, shared=5 * MB
    )
    monkeypatch.setattr(process_memory.psutil, "virtual_memory", lambda: memory)
    if limit is not None:
        for name, megabytes in zip(("memory.max", "memory.current"), limit, strict=True):
            (tmp_path / name).write_text(f"{megabytes * MB}\n")
        (tmp_path / "memory.stat").write_text("inactive_file 0\n")
    result = system_memory(tmp_path)
    assert (result.total, result.used, result.available, result.has_limit) == expected
    # Shared memory is no page cache.
    assert result.page_cache == 27


VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
VERSION_2 = ("memory.max", "memory.current", "inactive_file")


def bound(root: Path) -> tuple[float, float]:
    result = system_memory(root)
    return result.used, result.total


@pytest.mark.parametrize(
    ("row", "tree", "names", "unlimited"),
    [
        ("4:cpu,memory:/job/step", "memory", VERSION_1, f"{2**63 - 4096}"),
        ("0::/job/step", "", VERSION_2, "max"),
        ("0::/job/step", "unified", VERSION_2, "max"),
    ],
)
def test_limits_of_all_enclosing_groups_count(tmp_path, monkeypatch, row, tree, names, unlimited):
    (tmp_path / "own").write_text(f"9:name=systemd:/\n{row}\n")
    monkeypatch.setattr("vrtspike.system.cpus.MEMBERSHIP", tmp_path / "own")

    def group(place: str, limit: str, used: int) -> None:
        folder = tmp_path / tree / place
        folder.mkdir(parents=True, exist_ok=True)
        (folder / names[0]).write_text(f"{limit}\n")
        (folder / names[1]).write_text(f"{(used + 1) << 20}\n")
        (folder / "memory.stat").write_text(f"cache 3\n{names[2]} {1 << 20}\n")

    group("job/step", unlimited, 1)
    group("job", f"{8 << 20}", 3)
    group("other", f"{1 << 20}", 1)
    assert bound(tmp_path) == (3, 8)
    group("", f"{9 << 20}", 7)
    assert (bound(tmp_path), system_memory(tmp_path).available) == ((6, 8), 2)
    group("job/step", f"{4 << 20}", 1)
    assert bound(tmp_path) == (2, 4)
