"""What was found about code is good for one version of the sources, and for nothing else."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from vrtspike.provenance import remembered as module
from vrtspike.provenance.remembered import remembered


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """A program beside a file that it uses, and a package."""
    for name in ("programs/run.py", "programs/helper.py", "package/part/used.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("X = 1\n")
    return tmp_path / "programs/run.py"


def ask(entry: Path, answer: str, question: str = "files") -> str:
    """As a new process would: ``answer`` is given only if nothing is remembered."""
    module._once.cache_clear()
    found: str = remembered(entry, entry.parents[1] / "package", question, lambda: answer)
    return found


def memory(entry: Path) -> Path:
    (file,) = entry.parent.glob("__pycache__/run.*.code.json")
    return file


def test_the_same_sources_have_the_same_answer(entry):
    assert ask(entry, "first") == "first"
    assert ask(entry, "second") == "first"
    os.utime(entry)
    assert ask(entry, "third") == "first"
    assert ask(entry, "fourth", "definitions") == "fourth"
    assert ask(entry, "fifth") == "first"


@pytest.mark.parametrize("name", ["programs/run.py", "programs/helper.py", "package/part/used.py"])
def test_a_changed_file_is_seen_whatever_its_date_and_size(entry, name):
    path = entry.parents[1] / name
    status = path.stat()
    ask(entry, "first")
    path.write_text("X = 2\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert ask(entry, "second") == "second"
    path.write_text("X = 1\n")
    assert ask(entry, "third") == "third"


@pytest.mark.parametrize("name", ["programs/more.py", "package/part/more.py"])
def test_files_that_come_go_or_get_another_name_are_seen(entry, name):
    path = entry.parents[1] / name
    ask(entry, "first")
    path.write_text("")
    assert ask(entry, "second") == "second"
    path.rename(path.with_name("other.py"))
    assert ask(entry, "third") == "third"
    path.with_name("other.py").unlink()
    assert ask(entry, "fourth") == "fourth"


def test_a_file_that_another_has_taken_in_is_seen(entry):
    """Names and contents, written one after the other, would be the same."""
    helper, more = entry.with_name("helper.py"), entry.with_name("more.py")
    more.write_text("X = 1\n")
    ask(entry, "first")
    helper.write_text(f"X = 1\nprograms/more.py{more.read_text()}")
    more.unlink()
    assert ask(entry, "second") == "second"


def test_another_python_prints_code_in_another_way(entry, monkeypatch):
    ask(entry, "first")
    monkeypatch.setattr(sys, "version", "3.99")
    assert ask(entry, "second") == "second"


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"sources": 1}', '{"answers": 3', "\xff"])
def test_a_damaged_memory_is_made_anew(entry, damage):
    ask(entry, "first")
    file = memory(entry)
    whole = file.read_bytes()
    file.write_bytes(damage.encode("latin-1"))
    assert ask(entry, "first") == "first"
    assert file.read_bytes() == whole
    assert json.loads(whole)["answers"] == {"files": "first"}


def test_without_a_place_to_remember_it_is_found_each_time(entry):
    (entry.parent / "__pycache__").write_text("no folder")
    assert ask(entry, "first") == "first"
    assert ask(entry, "second") == "second"


def test_what_is_found_during_an_edit_is_not_remembered(entry):
    def answer() -> str:
        entry.write_text("X = 2\n")
        return "of either"

    package = entry.parents[1] / "package"
    assert remembered(entry, package, "files", answer) == "of either"
    entry.write_text("X = 1\n")
    assert ask(entry, "second") == "second"
