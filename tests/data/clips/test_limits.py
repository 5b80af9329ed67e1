"""Ranges of a training: from the manifests of its stores, and from its augmentation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.data.prepared import prepared
from tests.data.scenes import film
from vrtspike.data.clips.dataset import load_dataset
from vrtspike.data.clips.limits import RecordingLimits, store_limits, training_limits
from vrtspike.data.clips.run_statistics import read_run_statistics, run_statistics
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.io.files import read_json, write_json
from vrtspike.settings import Settings
from vrtspike.system.errors import RunError


def test_a_store_has_the_ranges_of_its_sequence():
    store = {
        "spike_size": [24, 32], "rgb_size": [96, 128], "gain": 2.5,
        "exposures": [[0, 56, 24.0], [4, 84, 40.0]],
        # 3 voxels of 2 steps without a spike and 1 with two; 4 of 3 steps with one.
        "histogram": {"2": [3, 0, 1], "3": [0, 4, 0, 0]},
    }  # fmt: skip
    assert store_limits(store) == {
        "gain": [2.5, 2.5], "rate": [6 / 20, 6 / 20], "ratio": [4.0, 4.0], "steps": [56, 80],
    }  # fmt: skip
    assert store_limits(store | {"spike_size": None}) is None


DARK = RecordingLimits((2.0, 2.0), (0.1, 0.1), (2.0, 2.0), (56, 56))
BRIGHT = RecordingLimits((1.5, 1.5), (0.4, 0.4), (2.0, 2.0), (80, 88))


def trained_on(*sequences: RecordingLimits | None, **data: float) -> RecordingLimits | None:
    return training_limits(sequences, Settings.model_validate({"DATA": data}).DATA)


def test_a_training_has_the_ranges_of_its_sequences_and_of_its_augmentation():
    off = {"THRESHOLD_AUGMENT": 0.0, "FAULT_AUGMENT": 0.0}
    plain = RecordingLimits((1.5, 2.0), (0.1, 0.4), (2.0, 2.0), (56, 88))
    assert trained_on(DARK, BRIGHT, **off) == plain
    raised = trained_on(DARK, BRIGHT, **off | {"THRESHOLD_AUGMENT": 0.5})
    assert raised.gain == (1.5, 6.0)
    assert raised.rate == pytest.approx((0.1 / 3, 0.4))
    faulty = trained_on(DARK, BRIGHT, **off | {"FAULT_AUGMENT": 0.5})
    assert faulty.gain == pytest.approx((1.5 * 0.4 / 0.442, 2.0))
    assert faulty.rate == pytest.approx((0.0978, 0.442))
    resized = trained_on(DARK, BRIGHT, **off | {"RATIO_AUGMENT": 0.5})
    assert resized == replace(plain, ratio=(1.0, 4.0))
    assert trained_on(DARK, None, **off) is None
    assert trained_on(**off) is None


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranges")
    for seed, (name, light) in enumerate({"a": 1.0, "b": 0.5, "c": 0.2}.items()):
        video = [(light * frame).astype(np.uint8) for frame in film(seed, 14, 48, 64)]
        write_sequence(folder / "raw/train" / name, video, frames_per_exposure=7)
    return prepared(folder / "raw", [f"train/{name}" for name in "abc"], folder, 4)


def test_a_run_keeps_the_ranges_of_the_sequences_that_it_is_trained_on(dataset, tmp_path):
    data = {"NUM_VOXEL_BINS": 4, "THRESHOLD_AUGMENT": 0.0, "FAULT_AUGMENT": 0.0}
    settings = Settings.model_validate({"DATA": data})
    (held_out,) = load_dataset(dataset).held_out
    trained = sorted({"a", "b", "c"} - {held_out})
    rates = []
    for name in trained:
        files = sorted((dataset.parents[1] / "raw/train" / name / "spike").iterdir())
        rates.append(np.mean([read_spikes(file, 24, 32) for file in files]))
    write_json(tmp_path / "statistics.json", run_statistics(settings, dataset))
    limits = read_run_statistics(tmp_path).limits
    assert limits.rate == pytest.approx((min(rates), max(rates)))
    assert (limits.ratio, limits.steps) == ((2.0, 2.0), (56, 56))
    without_spikes = Settings.model_validate({"DATA": data, "MODEL": {"USE_SPIKE": False}})
    assert "limits" not in run_statistics(without_spikes, dataset)


def test_a_data_set_and_a_result_of_before_are_read(dataset, tmp_path):
    manifest = read_json(dataset)
    for entries in manifest["splits"].values():
        for entry in entries:
            del entry["limits"]
    write_json(tmp_path / "dataset.json", manifest)
    settings = Settings.model_validate({"DATA": {"NUM_VOXEL_BINS": 4}})
    contents = run_statistics(settings, tmp_path / "dataset.json")
    write_json(tmp_path / "statistics.json", contents)
    assert read_run_statistics(tmp_path).limits is None
    write_json(tmp_path / "statistics.json", contents | {"limits": {"gain": [1, 2]}})
    with pytest.raises(RunError, match=r"statistics\.json: missing, damaged, or not the stat"):
        read_run_statistics(tmp_path)
