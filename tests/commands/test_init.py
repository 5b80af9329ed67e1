"""New projects in a folder of their own."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path

import pytest

import vrtspike
from tests.workflow.project import make_sequence, make_tiny_data
from vrtspike.commands.main import run_command
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.config.yaml_documents import read_yaml
from vrtspike.system.errors import DataError, RunError
from vrtspike.system.home import HOME_VARIABLE

FILES = {
    ".gitignore",
    "README.md",
    "config/config.yaml",
    "config/made_with.json",
    "config/presets/README.md",
    "workflow/Snakefile",
    "workflow/profiles/README.md",
    "workflow/profiles/default/config.yaml",
    "workflow/profiles/slurm/config.yaml",
}


@pytest.fixture(autouse=True)
def here(repository, tmp_path, monkeypatch) -> Path:
    """An empty working directory; the workflow is that of the clone."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv(HOME_VARIABLE, str(repository))
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_project_is_written_as_a_whole(here, repository, monkeypatch, capsys):
    (here / "mine").mkdir()  # an empty folder is as good as none
    run_command(["init", "mine"])
    assert files(here) == {f"mine/{name}" for name in FILES}
    shown = capsys.readouterr().out
    assert "cd mine" in shown
    assert "snakemake -n train_light" in shown
    made = json.loads((here / "mine/config/made_with.json").read_text())
    assert made["vrtspike"] == vrtspike.__version__
    profile = "workflow/profiles/slurm/config.yaml"
    assert (here / "mine" / profile).read_text() == (repository / profile).read_text()
    monkeypatch.chdir(here / "mine")
    workflow = load_workflow_config(["config/config.yaml"])
    assert workflow.settings.PRESETS == ("light",)
    assert workflow.settings.DATA == {"ROOT": "data/gopro_spike"}


@pytest.mark.parametrize("name", ["mine", "mine/notes.txt"])
def test_nothing_is_overwritten(here, name):
    (here / "mine").mkdir()
    (here / "mine/notes.txt").write_text("mine")
    with pytest.raises(RunError, match=rf"{name}: exists and is no empty folder"):
        run_command(["init", name])
    assert files(here) == {"mine/notes.txt"}


def test_an_empty_working_directory_stays_the_same_folder(here, capsys):
    folder = here.stat().st_ino
    run_command(["init", "."])
    assert files(here) == FILES
    assert {path.name for path in here.iterdir()} == {name.partition("/")[0] for name in FILES}
    assert here.stat().st_ino == folder
    assert "cd ." not in capsys.readouterr().out
    run_command(["init", "another one"])
    assert "  cd 'another one'\n" in capsys.readouterr().out


@pytest.mark.parametrize("is_there", [False, True])
def test_a_failure_leaves_nothing(here, monkeypatch, is_there):
    if is_there:
        (here / "mine").mkdir()
    write_text = Path.write_text

    def fail(path: Path, *words: str, **names: str) -> int:
        if path.name == "README.md" and path.parent.name == "presets":
            raise OSError(errno.EACCES, "denied", str(path))
        return write_text(path, *words, **names)

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match="denied"):
        run_command(["init", "mine"])
    assert list(here.rglob("*")) == [here / "mine"] * is_there


def test_data_are_looked_at_and_written_into_the_configuration(here, tmp_path, capsys):
    root = tmp_path / "raw data"
    make_tiny_data(root)
    run_command(["init", "mine", "--from-data", str(root)])
    shown = capsys.readouterr().out
    assert f"{root}: layout spk_gopro, sequences with spikes: 1 in test, 2 in train\n" in shown
    assert "frames can be used (frames 64 x 96, sensor 32 x 48)\n  no fault" in shown
    data = read_yaml("mine/config/config.yaml").tree["DATA"]
    assert data == {"ROOT": str(root), "LAYOUT": "spk_gopro", "SPIKE_SIZE": [32, 48]}


def test_faults_of_data_are_told(here, tmp_path, capsys):
    root = tmp_path / "raw"
    make_tiny_data(root)
    first = min((root / "train").iterdir())
    spike = min((first / "spike").glob("*.dat"))
    spike.write_bytes(spike.read_bytes()[:-1])
    run_command(["init", "mine", "--from-data", str(root)])
    assert "  fault: " in capsys.readouterr().out
    assert files(here / "mine") == FILES


def test_spikes_are_found_under_a_root_of_their_own(here, tmp_path):
    make_sequence(tmp_path / "frames", "train", 0)
    make_sequence(tmp_path / "frames", "test", 8)
    for folder in (tmp_path / "frames").glob("*/*/spike"):
        target = tmp_path / "spikes" / folder.relative_to(tmp_path / "frames")
        target.parent.mkdir(parents=True)
        folder.rename(target)
    run_command(["init", "mine", "--from-data", str(tmp_path / "frames")])
    data = read_yaml("mine/config/config.yaml").tree["DATA"]
    assert data["SPIKE_ROOT"] == str(tmp_path / "spikes")


def test_a_single_training_sequence_is_validated_on_the_test_sequences(
    here, tmp_path, capsys, monkeypatch
):
    make_sequence(tmp_path / "raw", "train", 0)
    make_sequence(tmp_path / "raw", "test", 8)
    run_command(["init", "mine", "--from-data", str(tmp_path / "raw")])
    assert "validation takes the test sequences (DATA.VALIDATION: test)" in capsys.readouterr().out
    monkeypatch.chdir(here / "mine")
    workflow = load_workflow_config(["config/config.yaml"])
    assert workflow.settings.DATA["VALIDATION"] == "test"
    assert workflow.settings_of("light").value("DATA.VALIDATION") == "test"


def test_without_usable_data_nothing_is_written(here, tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        run_command(["init", "mine", "--from-data", str(tmp_path / "none")])
    assert files(here) == set()


def test_why_plans_with_the_installed_workflow_where_a_project_has_none(
    here, repository, monkeypatch
):
    with pytest.raises(RunError, match="vrtspike init my_project"):
        run_command(["why", "demo"])
    commands: list[list[str]] = []

    def plan(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", plan)
    (here / "config").mkdir()
    (here / "config/config.yaml").touch()
    run_command(["why", "demo"])
    (here / "Snakefile").touch()
    run_command(["why", "demo"])
    first, second = commands
    place = first.index("--snakefile")
    assert first[place + 1] == str(repository / "workflow/Snakefile")
    assert first[-1] == "demo"
    assert "--snakefile" not in second
