from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest
import torch

from vrtspike.commands import readiness
from vrtspike.commands.hardware import GpuKind
from vrtspike.commands.readiness import (
    MACHINE,
    PRESETS,
    Check,
    compiler_check,
    disk_check,
    packages_check,
    project_checks,
    shared_memory_check,
    show_checks,
    torch_checks,
    weight_check,
)
from vrtspike.io.files import file_digest
from vrtspike.io.pretrained import PUBLISHED
from vrtspike.monitoring.process_memory import SystemMemory


@pytest.fixture
def project(repository, tmp_path, monkeypatch):
    shutil.copytree(repository / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checks(*overrides):
    return {c.name: c for c in project_checks([], overrides) if isinstance(c, Check)}


WRONG = {"mine": "TRAIN: {EPOCH: 3}\n"}
TAUGHT = {"mine": "BASE: demo\nTRAIN: {DISTILL: {TEACHER: results/train/demo}}\n"}
ABSENT = "missing data set folder data/gopro_spike does not exist -> set DATA.ROOT in config/config"
FIRST = "weights.safetensors is not there: that preset is trained first"


@pytest.mark.parametrize(
    ("presets", "asked", "expected"),
    [
        ({}, None, {"configuration": "ok", "data (gopro_spike)": ABSENT, "disk (RUNS)": "ok"}),
        ({}, None, {"weights (TEST.METRICS)": "-> snakemake --cores 1 weights"}),
        # The demo needs nothing.
        ({}, "demo", {"data (demo)": "note data/demo is generated", "weights": "ok none are need"}),
        # A preset that nobody asks for may be broken.
        (WRONG, "demo", {"configuration": "ok", "preset mine": "EPOCH"}),
        # Else a wrong configuration is told and nothing else.
        (WRONG, "mine", {"configuration": "EPOCH"}),
        ({}, "nosuch", {"configuration": "nosuch"}),
        (TAUGHT, "mine", {"weights (TRAIN.DISTILL.TEACHER)": FIRST}),
        # Of another problem: raw files that the user gives, and those that the workflow generates.
        ({}, "sst", {"data (sst)": "missing data/era5"}),
        (
            {},
            "sst_demo baseline",
            {"data (sst_demo)": "ok generated", "data (gopro_spike)": ABSENT},
        ),
    ],
)
def test_what_presets_need(project, presets, asked, expected):
    for name, text in presets.items():
        (project / f"config/presets/{name}.yaml").write_text(text)
    found = checks(*([] if asked is None else [f"PRESETS={asked}"]))
    told = {name: f"{c.state} {c.found} -> {c.cure}" for name, c in found.items()}
    assert all(words in told[name] for name, words in expected.items())
    if not told["configuration"].startswith("ok"):
        assert list(told) == ["configuration"]
        assert told["configuration"].startswith("broken")
    assert asked != "sst" or not any("gopro" in name for name in told)


def test_files_of_data(project):
    (project / "data/gopro_spike").mkdir(parents=True)
    assert checks()["data (gopro_spike)"].state == "broken"
    (project / "data/era5").mkdir(parents=True)
    (project / "data/era5/one.nc").touch()
    assert checks("PRESETS=sst")["data (sst)"] == Check("data (sst)", "ok", "1 files")


def test_a_missing_and_an_old_package_are_named(monkeypatch):
    assert packages_check() == Check("packages", "ok", "all are there")
    lines = ["numpy>=99", "nosuchpackage>=1", "wandb; extra == 'tracking'", "pandas>=1"]
    monkeypatch.setattr(readiness.metadata, "requires", lambda name: lines)
    found = packages_check()
    assert found.state == "broken"
    assert "numpy 2" in found.found
    assert ">=99 is needed; nosuchpackage is missing" in found.found
    assert "wandb" not in found.found


OLD = "The NVIDIA driver on your system is too old"


@pytest.mark.parametrize(
    ("value", "state", "found", "cure"),
    [
        (1, "ok", "", ""),
        (2, "broken", "", "it computes wrong products, replace it"),
        (None, "broken", f"; {OLD}", "docs/install.md"),
    ],
)
def test_a_gpu_is_tried(monkeypatch, value, state, found, cure):
    ones = torch.ones

    def stand_in(*size, device):
        if value is None:
            raise RuntimeError(f"{OLD}\nUpdate it")
        return value * ones(*size)

    monkeypatch.setattr("torch.ones", stand_in)
    monkeypatch.setattr(readiness, "driver_version", lambda: "535.104.05")
    _, check = torch_checks(GpuKind("A", 1, 24.0))
    assert (check.state, check.found) == (state, f"1 x A, 24 GiB, driver 535.104.05{found}")
    assert check.cure.startswith(cure)
    assert [check.state for check in torch_checks(None)] == ["ok", "note"]


def test_a_compiler_is_tried(tmp_path, monkeypatch):
    if shutil.which("cc") or shutil.which("gcc"):
        monkeypatch.delenv("CC", raising=False)
        assert compiler_check().state == "ok"
    broken = tmp_path / "mycc"
    broken.write_text("#!/bin/sh\necho 'check.c:1: error: no headers' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    found = compiler_check()
    assert found.state == "broken"
    assert "no headers" in found.found
    assert "python3-dev" in found.cure
    monkeypatch.setenv("CC", "nosuchcompiler")
    assert compiler_check().state == "broken"


def test_little_shared_memory(monkeypatch):
    little = SystemMemory(8000, 6000, 2000, 0, 64, 0)
    monkeypatch.setattr(readiness, "system_memory", lambda: little)
    shared = shared_memory_check()
    assert shared.state == "broken"
    assert "/dev/shm has 64 MB" in shared.found
    assert "--shm-size" in shared.cure
    enough = replace(little, shared_total=2048)
    monkeypatch.setattr(readiness, "system_memory", lambda: enough)
    assert shared_memory_check() == Check("shared memory", "ok", "2.0 GiB")


def test_data_that_are_there(project, tmp_path_factory):
    from tests.data.scenes import film
    from vrtspike.data.simulation.sequence import write_sequence

    root = tmp_path_factory.mktemp("data") / "walk"
    for split in ("train", "test"):
        write_sequence(root / split / "a", film(1, 23, 64, 96), frames_per_exposure=11)
    (project / "over.yaml").write_text(f"DATA: {{ROOT: {root}}}\n")

    def data():
        given = project_checks([project / "over.yaml"], [])
        found = {c.name: c for c in given if isinstance(c, Check)}
        return found["data (walk)"], found["disk (RESULTS)"]

    sound, disk = data()
    assert sound.state == "ok"
    assert sound.found == f"{root}: 1 sequences in train, 1 sequences in test, spikes"
    assert "stores need 0.0 GB more" in disk.found
    shutil.copytree(root / "train/a", root / "train/b")
    shutil.rmtree(root / "train/b/sharp")
    broken, _ = data()
    assert broken.state == "broken"
    assert "1 with faults (train/b: no sharp frames" in broken.found
    for split in ("train", "test"):
        shutil.rmtree(root / split / "a/spike")
    shutil.rmtree(root / "train/b")
    without, _ = data()
    assert without.state == "broken"
    assert "baseline" in without.found


def test_disks(tmp_path, monkeypatch):
    assert disk_check("RUNS", tmp_path / "a/b", 0.0).state == "ok"
    assert not (tmp_path / "a").exists()
    assert os.listdir(tmp_path) == []  # noqa: PTH208
    monkeypatch.setattr(readiness, "free_bytes", lambda path: 10**10)
    enough, little = (disk_check("RESULTS", tmp_path, need) for need in (7.9e9, 8.1e9))
    assert (enough.state, little.state) == ("ok", "broken")
    assert little.cure == "free space, or set RESULTS to another disk"
    no_folder = disk_check("RUNS", type(tmp_path)("/proc/nosuch"), 0.0)
    assert no_folder.state == "broken"
    assert "set RUNS to" in no_folder.cure


def test_weights(tmp_path, monkeypatch):
    published = tmp_path / "alexnet-owt-7be5be79.pth"
    published.write_bytes(b"something else")
    wrong = weight_check(published, "TEST.METRICS")
    assert wrong.state == "broken"
    assert "found SHA-256" in wrong.found
    monkeypatch.setitem(PUBLISHED, published.name, file_digest(published))
    assert weight_check(published, "TEST.METRICS").state == "ok"
    given = tmp_path / "vrt.pth"
    assert weight_check(given, "MODEL.VRT.PRETRAINED").state == "missing"
    assert weight_check(given, "TRAIN.DISTILL.TEACHER", is_trained_here=True).state == "note"
    given.write_bytes(b"weights")
    assert weight_check(given, "MODEL.VRT.PRETRAINED").state == "ok"


SOUND, WRONG, ABSENT = (
    Check("a", "ok", "well"),
    Check("b", "broken", "no", "do"),
    Check("c", "missing", "none"),
)


@pytest.mark.parametrize(
    ("machine", "presets", "ending", "is_sound"),
    [
        (SOUND, SOUND, "ready: make demo, and your presets", True),
        (SOUND, ABSENT, "ready: make demo; your presets need first: c", True),
        (SOUND, WRONG, "ready: make demo; your presets need first: b", False),
        (WRONG, ABSENT, "fix first: b", False),
    ],
)
def test_what_is_ready_is_told_at_the_end(machine, presets, ending, is_sound):
    lines = []
    found = [MACHINE, machine, PRESETS, presets]
    assert show_checks(iter(found), lines.append) is is_sound
    assert lines[-1] == ending
    if presets is WRONG:
        assert lines[1:5] == ["✓ a: well", "your presets (PRESETS):", "✗ b: no", "    -> do"]
    assert [line for line in lines if line.endswith(":")] == [
        "every command, make demo too:", "your presets (PRESETS):",
    ]  # fmt: skip


def test_outside_of_a_project_it_does_not_say_that_presets_are_ready(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []
    assert show_checks(readiness.all_checks([], []), lines.append)
    assert f"{tmp_path} is not the project's folder" in lines[-2]
    assert lines[-1].startswith("the machine is ready; configuration, data and weights were not")


def test_a_machine_without_the_program_which_is_told(tmp_path, monkeypatch):
    assert list(readiness.which_check()) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = readiness.which_check()
    assert check.state == "broken"
    assert "debianutils" in check.cure
    monkeypatch.chdir(tmp_path)
    assert check in list(readiness.all_checks([], []))
    # Nothing else calls it.
    monkeypatch.setattr(readiness.importlib.util, "find_spec", lambda name: None)
    assert list(readiness.which_check()) == []


def test_a_python_without_vrtspike_is_told(monkeypatch):
    def missing(name):
        raise readiness.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(readiness.metadata, "requires", missing)
    assert readiness.packages_check().found == "vrtspike is not installed"
