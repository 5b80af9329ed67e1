"""Presets that use a trained model: its network, its inputs and their statistics."""

from __future__ import annotations

import pytest

from vrtspike.config import load_preset
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.clips.run_statistics import run_statistics, training_statistics
from vrtspike.data.voxels.normalization import VoxelStatistics
from vrtspike.deblurring.trained_models import voxel_differences
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import read_json, write_json
from vrtspike.runs.identity import RunIdentity, identify
from vrtspike.runs.published import publish
from vrtspike.sst.settings import SSTSettings
from vrtspike.system.errors import ConfigError, RunError


def test_voxels_are_standardised_as_the_weights_expect_them(
    deblurring_project, run_folder, tmp_path
):
    start, dataset = tmp_path / "start", load_dataset(deblurring_project / "k4" / "dataset.json")
    publish(run_folder, start)
    contents = read_json(start / "statistics.json")
    contents["statistics"] = {"mean": 0.5, "std": 0.25, "count": 9}
    write_json(start / "statistics.json", contents)
    preset = deblurring_project / "presets" / "tiny.yaml"
    settings = load_preset(preset, [f"MODEL.PRETRAINED={start}"])
    assert training_statistics(settings, dataset) == VoxelStatistics(0.5, 0.25, 9)
    assert run_statistics(settings, dataset.path)["statistics"] == contents["statistics"]
    assert training_statistics(load_preset(preset), dataset) == dataset.statistics


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["DATA.NUM_VOXEL_BINS=8"], r"DATA\.NUM_VOXEL_BINS is 4 there, 8 here"),
        (["DATA.CONTEXT_STEPS=8"], r"DATA\.CONTEXT_STEPS is 0 there, 8 here"),
        (["DATA.NORM={MEAN: 2, STD: 3}"], r"NORM\.MEAN is 0\.\d+ there, 2 here; .*\(null in DATA"),
        (["MODEL.FUSE.HEADS=1"], r"MODEL\.FUSE\.HEADS is 2 there, 1 here"),
        (["MODEL.USE_SPIKE=false"], r"MODEL\.USE_SPIKE is true there, false here"),
        (["MODEL.TYPE=spike_nafnet", "MODEL.NAF.NEIGHBOUR_BINS=2"], r'TYPE is "vrt_spike" there'),
    ],
)
def test_a_start_of_other_inputs_or_another_network_is_refused(
    deblurring_project, run_folder, tmp_path, overrides, message
):
    publish(run_folder, tmp_path / "start")
    keys = [f"MODEL.PRETRAINED={tmp_path / 'start'}", *overrides]
    settings = load_preset(deblurring_project / "presets" / "tiny.yaml", keys)
    with pytest.raises(ConfigError, match=rf"^MODEL\.PRETRAINED \S+start: .*{message}"):
        identify("tiny", settings, deblurring_project / "k4" / "dataset.json")


def test_a_start_of_another_task_or_without_settings_is_refused(deblurring_project, tmp_path):
    start = tmp_path / "start"
    settings = load_preset(
        deblurring_project / "presets" / "tiny.yaml", [f"MODEL.PRETRAINED={start}"]
    )
    with pytest.raises(RunError, match=r"MODEL\.PRETRAINED: .*No such file .* train it first"):
        identify("tiny", settings, deblurring_project / "k4" / "dataset.json")
    RunIdentity("sea", SSTSettings(TASK="sst"), "", "").write(start)
    (start / "weights.safetensors").touch()
    with pytest.raises(ConfigError, match=r"MODEL\.PRETRAINED \S+: a run of TASK sst"):
        identify("tiny", settings, deblurring_project / "k4" / "dataset.json")
    (start / "settings.json").unlink()
    with pytest.raises(RunError, match=r"settings\.json: no such file"):
        identify("tiny", settings, deblurring_project / "k4" / "dataset.json")


OPTIONS = StoreOptions(bins=8, context=4)


def trained_on(folder, statistics) -> tuple[object, DeblurringSettings]:
    """The folder and the settings of a model that was trained on stores with OPTIONS."""
    write_json(folder / "statistics.json", {"statistics": statistics})
    settings = {"DATA": {"NUM_VOXEL_BINS": OPTIONS.bins, "CONTEXT_STEPS": OPTIONS.context}}
    return folder, DeblurringSettings.model_validate(settings)


@pytest.mark.parametrize(
    ("options", "mean", "std", "lines"),
    [
        (OPTIONS, 0.5, 0.25, []),
        (OPTIONS, None, None, []),
        (OPTIONS, 0.5004, 0.2498, []),  # copied from a log
        (StoreOptions(bins=8), 0.5, 0.25, ["DATA.CONTEXT_STEPS is 4 there, 0 here"]),
        (StoreOptions(bins=9, context=4), None, None, ["DATA.NUM_VOXEL_BINS is 8 there, 9 here"]),
        (OPTIONS, 0.51, 0.25, ["DATA.NORM.MEAN is 0.5 there, 0.51 here"]),
        (OPTIONS, 0.5, 0.26, ["DATA.NORM.STD is 0.25 there, 0.26 here"]),
    ],
)
def test_differing_keys_are_named_with_both_values(tmp_path, options, mean, std, lines):
    model = trained_on(tmp_path, {"mean": 0.5, "std": 0.25, "count": 9})
    assert voxel_differences(*model, options, mean, std) == lines


def test_a_model_whose_statistics_are_missing_is_refused(tmp_path):
    model = trained_on(tmp_path, None)
    with pytest.raises(RunError, match=r"statistics\.json: holds no statistics, but the model"):
        voxel_differences(*model, OPTIONS, None, None)
