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

# A "training" process holds 40 MB that it shares with a child that it forks, which takes 20 MB of
# its own and 8 MB of shared memory; the child's parent is called as Python's server of workers is.
PROGRAM = """
import mmap, os, sys, time
shared = bytearray(os.urandom(40 << 20))
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, "-c", SERVER, "forkserver"])
print("ready", flush=True)
time.sleep(60)
"""
SERVER = """
import mmap, os, time
held = bytearray(os.urandom(40 << 20))
if os.fork() == 0:
    own = bytearray(os.urandom(20 << 20))
    block = mmap.mmap(-1, 8 << 20)
    block.write(os.urandom(8 << 20))
    print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    # In a file: its words are not among those of the command line.
    program = folder / "train.py"
    program.write_text(f"SERVER = {SERVER!r}\n{PROGRAM}")
    command = [sys.executable, str(program), "--run-dir", folder.name]
    process = subprocess.Popen(
        command, cwd=folder.parent, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    yield folder, process.pid
    os.killpg(process.pid, 9)
    process.wait()


def test_a_run_is_known_by_its_option_with_all_its_children(training):
    folder, pid = training
    found = processes_of_run(folder)
    assert [(process.role, process.depth) for process in found] == [
        ("training", 0),
        ("helper", 1),
        ("worker", 2),
    ]
    assert found[0].pid == pid
    assert processes_of_run(folder.parent) == []


def test_shared_pages_are_divided(training):
    folder, _ = training
    program, server, worker = processes_of_run(folder)
    assert 40 < program.own < program.proportional <= program.resident
    # Server and worker share the 40 MB that the server held before.
    assert worker.resident > 68
    assert 28 < worker.own < 48
    assert server.own < 30 < server.resident
    for process in (server, worker):
        assert process.proportional == pytest.approx((process.resident + process.own) / 2, abs=12)
    assert 8 <= worker.shared_memory < 9
    assert program.shared_memory < 1
    assert worker.taken == worker.proportional
    assert all(process.gpu is None for process in (program, server, worker))


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
    assert SystemMemory(100, 60, 0, None, 0, 0, limit=4, limit_used=8).available_within_limit == 0
    large = SystemMemory(100, 60, 0, None, 0, 0, limit=200, limit_used=1)
    assert (large.bound, large.available_within_limit) == ((40, 100), 60)
    # A machine may be full before a container's limit is reached.
    assert SystemMemory(100, 5, 0, None, 0, 0, limit=50, limit_used=20).available_within_limit == 5


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
