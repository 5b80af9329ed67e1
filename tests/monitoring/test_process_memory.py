from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from vrtspike.monitoring import process_memory
from vrtspike.monitoring.process_memory import (
    SystemMemory,
    processes_of_run,
    system_memory,
)

# A training with a process of its own, and one of that one's, as multiprocessing starts workers.
PROGRAM = """
import os, subprocess, sys, time
held = bytearray(40 << 20)
subprocess.Popen([sys.executable, "-c", HELPER])
time.sleep(60)
"""
HELPER = "import os, time; os.fork(); print('ready', flush=True); time.sleep(60)"


def test_a_run_is_known_by_its_option_with_all_its_descendants(tmp_path):
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
        found = processes_of_run(tmp_path)
        assert processes_of_run(tmp_path.parent) == []
    finally:
        os.killpg(process.pid, 9)
        process.wait()
    roles = [("training", 0), ("helper", 1), ("worker", 2)]
    assert [(each.role, each.depth) for each in found] == roles
    program, *others = found
    assert program.pid == process.pid
    assert 40 < program.own < program.proportional == program.taken <= program.resident
    assert all(each.own < 30 for each in others)
    assert [each.gpu for each in found] == [None] * 3


def test_shared_memory_is_no_page_cache(monkeypatch):
    mb = 2**20
    memory = SimpleNamespace(
        total=900 * mb, available=500 * mb, cached=300 * mb, buffers=20 * mb, shared=50 * mb
    )
    monkeypatch.setattr(process_memory.psutil, "virtual_memory", lambda: memory)
    assert system_memory().page_cache == 270


def test_the_container_s_limit_counts_where_it_is_lower(tmp_path):
    free = system_memory(tmp_path)
    assert (free.limit, free.bound) == (None, (free.total - free.available, free.total))
    assert free.available_within_limit == free.available
    assert SystemMemory(100, 60, 0, None, 0, limit=4, limit_used=8).available_within_limit == 0
    large = SystemMemory(100, 60, 0, None, 0, limit=200, limit_used=1)
    assert (large.bound, large.available_within_limit) == ((40, 100), 60)
    # A machine may be full before a container's limit is reached.
    assert SystemMemory(100, 5, 0, None, 0, limit=50, limit_used=20).available_within_limit == 5


VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
VERSION_2 = ("memory.max", "memory.current", "inactive_file")


@pytest.mark.parametrize(
    ("row", "tree", "names", "unlimited"),
    [
        ("4:cpu,memory:/job/step", "memory", VERSION_1, f"{2**63 - 4096}"),
        ("0::/job/step", "", VERSION_2, "max"),
        ("0::/job/step", "unified", VERSION_2, "max"),
    ],
)
def test_limits_of_all_groups_on_the_way_to_this_process_count(
    tmp_path, monkeypatch, row, tree, names, unlimited
):
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
    assert system_memory(tmp_path).bound == (3, 8)
    group("", f"{9 << 20}", 7)
    system = system_memory(tmp_path)
    assert (system.bound, system.available_within_limit) == ((6, 8), 2)
    group("job/step", f"{4 << 20}", 1)
    assert system_memory(tmp_path).bound == (2, 4)
