"""Checks of `vrtspike doctor` on presets, data, disks and weights."""

from __future__ import annotations

import os
import shutil

import pytest

from vrtspike.commands.readiness import project_checks as project_checks_module
from vrtspike.commands.readiness.check import Check
from vrtspike.commands.readiness.project_checks import disk_check, project_checks, weight_check
from vrtspike.io.backbone_weights import PUBLISHED
from vrtspike.io.files import file_digest


@pytest.fixture
def project(repository, tmp_path, monkeypatch):
    shutil.copytree(repository / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checks(*overrides):
    results = project_checks([], overrides)
    return {check.name: check for check in results if isinstance(check, Check)}


WRONG = {"mine": "TRAIN: {EPOCH: 3}\n"}
TAUGHT = {"mine": "BASE: demo\nTRAIN: {DISTILL: {TEACHER: results/train/demo}}\n"}
ABSENT = "missing data set folder data/gopro_spike does not exist -> set DATA.ROOT in config/config"
FIRST = "weights.safetensors is not there: that preset is trained first"


@pytest.mark.parametrize(
    ("presets", "names", "expected"),
    [
        ({}, None, {"configuration": "ok", "data (gopro_spike)": ABSENT, "disk (RUNS)": "ok"}),
        ({}, None, {"weights (TEST.METRICS: lpips)": "-> snakemake --cores 1 weights"}),
        # The demo needs nothing.
        ({}, "demo", {"data (demo)": "note data/demo is generated", "weights": "ok none are need"}),
        # A preset that is not in PRESETS may be broken.
        (WRONG, "demo", {"configuration": "ok", "preset mine": "EPOCH"}),
        # Otherwise only the fault of the configuration is reported.
        (WRONG, "mine", {"configuration": "EPOCH"}),
        ({}, "nosuch", {"configuration": "nosuch"}),
        (TAUGHT, "mine", {"weights (TRAIN.DISTILL.TEACHER)": FIRST}),
        # Another task: raw files of the user, and files that the workflow generates.
        ({}, "sst", {"data (sst)": "missing data/era5"}),
        (
            {},
            "sst_demo baseline",
            {"data (sst_demo)": "ok generated", "data (gopro_spike)": ABSENT},
        ),
    ],
)
def test_needs_of_presets(project, presets, names, expected):
    for name, text in presets.items():
        (project / f"config/presets/{name}.yaml").write_text(text)
    overrides = [] if names is None else [f"PRESETS={names}"]
    texts = {
        name: f"{check.state} {check.detail} -> {check.cure}"
        for name, check in checks(*overrides).items()
    }
    assert all(text in texts[name] for name, text in expected.items())
    if not texts["configuration"].startswith("ok"):
        assert list(texts) == ["configuration"]
        assert texts["configuration"].startswith("broken")
    if names == "sst":
        assert not any("gopro" in name for name in texts)


def test_an_empty_data_folder_is_broken(project):
    (project / "data/gopro_spike").mkdir(parents=True)
    assert checks()["data (gopro_spike)"].state == "broken"
    (project / "data/era5").mkdir(parents=True)
    (project / "data/era5/one.nc").touch()
    assert checks("PRESETS=sst")["data (sst)"] == Check("data (sst)", "ok", "1 files")


def test_existing_data(project, tmp_path_factory):
    from tests.data.scenes import film
    from vrtspike.data.simulation.sequence import write_sequence

    root = tmp_path_factory.mktemp("data") / "walk"
    for split in ("train", "test"):
        write_sequence(root / split / "a", film(1, 23, 64, 96), frames_per_exposure=11)
    (project / "over.yaml").write_text(f"DATA: {{ROOT: {root}}}\n")

    def data():
        results = project_checks([project / "over.yaml"], [])
        by_name = {check.name: check for check in results if isinstance(check, Check)}
        return by_name["data (walk)"], by_name["disk (RESULTS)"]

    sound, disk = data()
    assert sound.state == "ok"
    assert sound.detail == f"{root}: 1 sequences in train, 1 sequences in test, spikes"
    assert "stores need 0.0 GB more" in disk.detail
    shutil.copytree(root / "train/a", root / "train/b")
    shutil.rmtree(root / "train/b/sharp")
    broken, _ = data()
    assert broken.state == "broken"
    assert "1 with faults (train/b: no sharp frames" in broken.detail
    for split in ("train", "test"):
        shutil.rmtree(root / split / "a/spike")
    shutil.rmtree(root / "train/b")
    without, _ = data()
    assert without.state == "broken"
    assert "light" in without.detail


def test_a_disk_without_room_or_folder_is_broken(tmp_path, monkeypatch):
    assert disk_check("RUNS", tmp_path / "a/b", 0.0).state == "ok"
    assert not (tmp_path / "a").exists()
    assert os.listdir(tmp_path) == []  # noqa: PTH208
    monkeypatch.setattr(project_checks_module, "free_bytes", lambda path: 10**10)
    enough, too_small = (disk_check("RESULTS", tmp_path, need) for need in (7.9e9, 8.1e9))
    assert (enough.state, too_small.state) == ("ok", "broken")
    assert too_small.cure == "free space, or set RESULTS to another disk"
    no_folder = disk_check("RUNS", type(tmp_path)("/proc/nosuch"), 0.0)
    assert no_folder.state == "broken"
    assert "set RUNS to" in no_folder.cure


def test_weights_are_published_missing_or_trained_here(tmp_path, monkeypatch):
    published = tmp_path / "alexnet-owt-7be5be79.pth"
    published.write_bytes(b"something else")
    wrong = weight_check(published, "TEST.METRICS")
    assert wrong.state == "broken"
    assert "found SHA-256" in wrong.detail
    monkeypatch.setitem(PUBLISHED, published.name, file_digest(published))
    assert weight_check(published, "TEST.METRICS").state == "ok"
    weights = tmp_path / "vrt.pth"
    assert weight_check(weights, "MODEL.VRT.PRETRAINED").state == "missing"
    assert weight_check(weights, "TRAIN.DISTILL.TEACHER", is_trained_here=True).state == "note"
    weights.write_bytes(b"weights")
    assert weight_check(weights, "MODEL.VRT.PRETRAINED").state == "ok"
