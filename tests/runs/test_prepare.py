"""What may be computed in a folder, settled before anything is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.test_identity import STATISTICS, write_dataset
from vrtspike.errors import ConfigError, RunError
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.prepare import prepare_folder


@pytest.fixture
def place(tmp_path) -> Path:
    """A preset with given flow weights, and a data set."""
    (tmp_path / "spynet.pth").write_bytes(b"flow")
    (tmp_path / "p.yaml").write_text(
        f"MODEL: {{VRT: {{SPYNET: {tmp_path / 'spynet.pth'}}}}}\nTRAIN: {{OPTIM: {{LR: 1.0e-3}}}}\n"
    )
    write_dataset(tmp_path / "dataset.json", STATISTICS)
    return tmp_path


def begin(place: Path, *overrides: str) -> RunIdentity:
    prepare_folder(
        place / "run",
        preset=place / "p.yaml",
        dataset=place / "dataset.json",
        overrides=overrides,
    )
    return RunIdentity.read(place / "run")


def go_on(place: Path, *overrides: str) -> RunIdentity:
    prepare_folder(place / "run", preset=None, dataset=None, overrides=overrides)
    return RunIdentity.read(place / "run")


def test_a_new_run_is_its_preset_and_goes_on_as_it_began(place):
    run = begin(place, "SEED=5")
    assert (run.name, run.settings.SEED, run.settings.TRAIN.OPTIM.LR) == ("p", 5, 1e-3)
    assert run.dataset == str(place / "dataset.json")
    assert go_on(place) == run
    assert begin(place, "SEED=5") == run


def test_another_run_does_not_enter_the_folder(place):
    run = begin(place)
    with pytest.raises(RunError, match=f"holds run {run.fingerprint}; this would be run"):
        begin(place, "SEED=5")
    assert RunIdentity.read(place / "run") == run


def test_a_run_takes_what_leaves_its_result(place):
    run = begin(place)
    with pytest.raises(RunError, match=r"--set TRAIN\.OPTIM\.LR=1 changes the result"):
        go_on(place, "TRAIN.OPTIM.LR=1")
    changed = go_on(place, "LOG.MEMORY_EVERY_STEPS=7")
    assert changed.settings.LOG.MEMORY_EVERY_STEPS == 7
    assert changed.fingerprint == run.fingerprint


def test_changed_data_are_refused(place):
    begin(place)
    write_dataset(place / "dataset.json", STATISTICS, "of data made anew")
    with pytest.raises(RunError, match=r"dataset\.json has changed since this run began"):
        go_on(place)


def test_changed_weights_are_refused_wherever_they_are_named(place):
    run = begin(place)
    (place / "spynet.pth").write_bytes(b"flaw")
    with pytest.raises(RunError, match=r"MODEL\.VRT\.SPYNET \(.*spynet\.pth\) has changed since"):
        go_on(place)
    # The same weights elsewhere are the same; others are not let in by a new name.
    (place / "moved.pth").write_bytes(b"flow")
    assert go_on(place, f"MODEL.VRT.SPYNET={place / 'moved.pth'}").weights == run.weights
    with pytest.raises(RunError, match="has changed since"):
        go_on(place, f"MODEL.VRT.SPYNET={place / 'spynet.pth'}")
    assert RunIdentity.read(place / "run").settings.MODEL.VRT.SPYNET == str(place / "moved.pth")


def test_preset_and_dataset_belong_together(place):
    for preset, dataset in ((place / "p.yaml", None), (None, place / "dataset.json")):
        with pytest.raises(RunError, match="belong together"):
            prepare_folder(place / "run", preset=preset, dataset=dataset, overrides=[])
    with pytest.raises(RunError, match=r"settings\.json: no such file\. Name the folder"):
        go_on(place)
    (place / "spynet.pth").unlink()
    with pytest.raises(ConfigError, match=r"SPYNET: no such file"):
        begin(place)
    assert not (place / "run").exists()
