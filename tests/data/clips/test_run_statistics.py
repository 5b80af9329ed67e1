"""Statistics and ranges that a run keeps of its data set."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.prepared import prepared
from tests.data.scenes import film
from tests.runs.data_sets import STATISTICS, make_run
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.clips.run_statistics import read_run_statistics, run_statistics
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.data.voxels.normalization import VoxelStatistics
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import read_json, write_json
from vrtspike.runs.identity import RunIdentity, write_statistics
from vrtspike.system.errors import RunError


@pytest.mark.parametrize(
    ("sections", "kept", "read"),
    [
        ({}, STATISTICS, VoxelStatistics(0.1, 0.2, 3)),
        # A model without spikes has none, given values win.
        ({"MODEL": {"USE_SPIKE": False}}, None, None),
        (
            {"DATA": {"NUM_VOXEL_BINS": 4, "NORM": {"MEAN": 0.5, "STD": 2.0}}},
            {"mean": 0.5, "std": 2.0, "count": 0},
            VoxelStatistics(0.5, 2.0, 0),
        ),
    ],
)
def test_settings_decide_which_statistics_are_kept(tmp_path, sections, kept, read):
    folder = make_run(tmp_path, **sections)
    write_statistics(RunIdentity.read(folder), folder)
    assert read_json(folder / "statistics.json") == {
        "schema": 1, "dataset": "x", "dataset_digest": "d", "bins": 4, "statistics": kept,
    }  # fmt: skip
    (tmp_path / "dataset.json").unlink()
    assert read_run_statistics(folder).voxels == read


@pytest.mark.parametrize("contents", ["{", "[]", "{}", '{"statistics": {"mean": 1}}'])
def test_missing_and_damaged_statistics_are_refused(tmp_path, contents):
    message = r"statistics\.json: missing, damaged, or not the statistics"
    with pytest.raises(RunError, match=message):
        read_run_statistics(tmp_path)
    (tmp_path / "statistics.json").write_text(contents)
    with pytest.raises(RunError, match=message):
        read_run_statistics(tmp_path)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranges")
    for seed, (name, light) in enumerate({"a": 1.0, "b": 0.5, "c": 0.2}.items()):
        video = [(light * frame).astype(np.uint8) for frame in film(seed, 14, 48, 64)]
        write_sequence(folder / "raw/train" / name, video, frames_per_exposure=7)
    return prepared(folder / "raw", [f"train/{name}" for name in "abc"], folder, 4)


def test_a_run_keeps_the_ranges_of_the_sequences_that_it_is_trained_on(dataset, tmp_path):
    data = {"NUM_VOXEL_BINS": 4, "THRESHOLD_AUGMENT": 0.0, "FAULT_AUGMENT": 0.0}
    settings = DeblurringSettings.model_validate({"DATA": data})
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
    without_spikes = DeblurringSettings.model_validate(
        {"DATA": data, "MODEL": {"USE_SPIKE": False}}
    )
    assert "limits" not in run_statistics(without_spikes, dataset)


def test_a_data_set_and_a_result_of_before_are_read(dataset, tmp_path):
    manifest = read_json(dataset)
    for entries in manifest["splits"].values():
        for entry in entries:
            del entry["limits"]
    write_json(tmp_path / "dataset.json", manifest)
    settings = DeblurringSettings.model_validate({"DATA": {"NUM_VOXEL_BINS": 4}})
    contents = run_statistics(settings, tmp_path / "dataset.json")
    write_json(tmp_path / "statistics.json", contents)
    assert read_run_statistics(tmp_path).limits is None
    write_json(tmp_path / "statistics.json", contents | {"limits": {"gain": [1, 2]}})
    with pytest.raises(RunError, match=r"statistics\.json: missing, damaged, or not the stat"):
        read_run_statistics(tmp_path)
