"""Digests of the code that trained a run, and later changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vrtspike.io.files import read_json
from vrtspike.staleness.training_code import code_changes, training_code
from vrtspike.training.checkpoints import save_checkpoint


@pytest.fixture
def program(tmp_path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "helper.py").write_text("def double(x):\n    return 2 * x\n")
    path = folder / "train.py"
    path.write_text("from helper import double\nFACTOR = 3\nprint(double(FACTOR))\n")
    return path


RECORD = """
import sys
from pathlib import Path
from vrtspike.staleness.training_code import record_code
print(record_code(Path(sys.argv[1]), Path(sys.argv[2]), "sst"))
"""


def record(folder: Path, program: Path) -> str:
    """In a process of its own: sources are read once in a process."""
    command = [sys.executable, "-c", RECORD, str(folder), str(program)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_code_is_recorded_until_the_first_checkpoint_and_compared_afterwards(tmp_path, program):
    folder = tmp_path / "run"
    assert record(folder, program) == "[]"
    begun = read_json(folder / "code.json")["files"]
    programs = {name for name in begun if name.startswith("scripts/")}
    assert programs == {"scripts/train.py", "scripts/helper.py"}
    helper = program.with_name("helper.py")
    helper.write_text(helper.read_text().replace("2 * x", "x + x"))
    # Nothing was computed yet: the run begins with today's code.
    assert record(folder, program) == "[]"
    assert read_json(folder / "code.json")["files"] != begun
    save_checkpoint(folder / "checkpoints", {"step": 1}, 1)
    begun = read_json(folder / "code.json")
    helper.write_text(helper.read_text().replace("x + x", "2 * x"))
    program.write_text(program.read_text().replace("FACTOR = 3", "FACTOR = 4"))
    assert record(folder, program) == "['scripts/helper.py', 'scripts/train.py']"
    assert read_json(folder / "code.json") == begun


@pytest.mark.parametrize("text", [None, "damaged"])
def test_the_code_of_today_is_not_recorded_for_a_run_that_has_begun(tmp_path, program, text):
    folder = tmp_path / "run"
    save_checkpoint(folder / "checkpoints", {"step": 1}, 1)
    if text is not None:
        (folder / "code.json").write_text(text)
    for _ in range(2):
        assert record(folder, program) == "['code.json does not say with which code']"
        # A finished run is published with this file.
        assert read_json(folder / "code.json")["files"] is None
        assert code_changes(folder, program, "sst") is None


@pytest.mark.parametrize("text", ["", "[]", '{"files": 3}', '{"schema": 1}'])
def test_changes_are_unknown_without_a_valid_record(tmp_path, program, text):
    assert code_changes(tmp_path, program, "sst") is None
    (tmp_path / "code.json").write_text(text)
    assert code_changes(tmp_path, program, "sst") is None


def test_the_code_of_training_is_that_of_the_network_and_not_of_the_logs(repository):
    files = training_code(repository / "scripts/train.py", "deblurring")
    assert {
        "training/loop.py",
        "losses/charbonnier.py",
        "models/vrt.py",
        "data/clips/augmentation.py",
        "data/raw/packed.py",
    } <= files.keys()
    neutral = (
        "monitoring/",
        "cluster/",
        "runs/",
        "staleness/",
        "config/",
        "deblurring_settings/",
        "data/manifests",
        "data/store/writing",
        "data/checks/",
    )
    assert not any(name.startswith(neutral) for name in files)
    assert {name for name in files if name.startswith("data/raw/")} == {"data/raw/packed.py"}


def test_a_record_of_another_version_is_reported(tmp_path, program):
    (tmp_path / "code.json").write_text('{"schema": 2, "files": {}}')
    assert code_changes(tmp_path, program, "sst") == ["code.json of another version"]
