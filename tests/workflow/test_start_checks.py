"""Two Snakemakes with one folder of results; tests/faults has real ones."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.concurrency import is_waited_for
from vrtspike.io.locks import locked
from vrtspike.system.errors import RunError
from vrtspike.workflow.start_checks import refuse_future_dates, reserve_files

HOLDER = """
import sys
from pathlib import Path
from vrtspike.workflow.start_checks import reserve_files
assert not reserve_files(Path(sys.argv[1]), sys.argv[2:], print)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path) -> Callable[..., subprocess.Popen[str]]:
    def start(*files: str) -> subprocess.Popen[str]:
        """A process that is about to make some files."""
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path), *files],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    return start


def test_a_snakemake_that_makes_the_same_file_is_named_and_waited_for(
    holder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    other = holder("a", "b", "c")
    # One file has one name wherever Snakemake was started.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert not reserve_files(tmp_path, ["a", "b"], pytest.fail)
    messages: list[str] = []

    def show(text: str) -> None:
        messages.append(text)
        assert other.poll() is None
        other.stdin.close()

    # It has the right to nothing: it plans once more before it begins.
    assert reserve_files(tmp_path, ["../b", "../c", "../d"], show)
    assert len([*tmp_path.glob("*.plan")]) == 1  # of the first call
    # Another one with this host name and process ID, as in containers, has a list of its own.
    assert not reserve_files(tmp_path, ["e"], pytest.fail)
    assert len([*tmp_path.glob("*.plan")]) == 2
    assert other.wait(60) == 0
    (text,) = messages
    assert f"process {other.pid} of " in text
    assert "which makes ../b and 1 more of the files that are due here, too" in text


def test_paths_of_any_bytes_are_reserved(holder, tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    other = holder(name)
    messages: list[str] = []

    def show(text: str) -> None:
        messages.append(text)
        other.stdin.close()

    assert reserve_files(tmp_path, [name], show)
    assert other.wait(60) == 0
    (text,) = messages
    assert "which makes " in text


def test_the_umask_decides_who_may_read_a_list(tmp_path):
    before = os.umask(0o002)
    try:
        assert not reserve_files(tmp_path, ["a"], pytest.fail)
    finally:
        os.umask(before)
    (path,) = tmp_path.glob("*.plan")
    assert path.stat().st_mode & 0o777 == 0o664


def test_a_list_that_may_not_be_opened_is_a_conflict(tmp_path, monkeypatch):
    path = tmp_path / "theirs.plan"
    path.touch()
    open_path = Path.open

    def refuse(self: Path, *arguments: Any, **options: Any) -> Any:
        if self == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open_path(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    messages: list[str] = []
    with pytest.raises(PermissionError, match=r"theirs\.plan"):
        reserve_files(tmp_path, ["a"], messages.append)
    (text,) = messages
    assert text.startswith(f"{path} lists the files that another user's snakemake makes")
    assert [*tmp_path.glob("*.plan")] == [path]


def test_lists_of_killed_snakemakes_are_removed(holder, tmp_path):
    other = holder("a")
    other.kill()
    other.communicate()
    # A link that leads nowhere is listed, and cannot be opened.
    (tmp_path / "gone.plan").symlink_to(tmp_path / "nowhere")
    assert len([*tmp_path.glob("*.plan")]) == 2
    assert not reserve_files(tmp_path, ["a"], pytest.fail)
    assert len([*tmp_path.glob("*.plan")]) == 2


def test_files_are_reserved_by_one_process_at_a_time(tmp_path):
    waited: list[bool] = []
    second = threading.Thread(
        target=lambda: waited.append(reserve_files(tmp_path, ["a"], pytest.fail))
    )
    with locked(tmp_path / "lock"):
        second.start()
        while not is_waited_for(tmp_path / "lock"):
            assert second.is_alive()
        assert not [*tmp_path.glob("*.plan")]
    second.join(60)
    assert waited == [False]


def test_files_dated_in_the_future_are_refused_with_advice(tmp_path):
    files = [tmp_path / name for name in ("a.json", "b.json")]
    for file in files:
        file.touch()
    plan = [*map(str, files), str(tmp_path / "missing.json")]
    refuse_future_dates(plan)
    os.utime(files[1], (time.time() + 86400,) * 2)
    with pytest.raises(RunError, match=r"future.*\(1\):\n  - \S*b.json\n.*: (touch .*)") as error:
        refuse_future_dates(plan)
    subprocess.run(str(error.value).rpartition(": ")[2], shell=True, check=True)
    refuse_future_dates(plan)
