"""Options of the jobs on data, and versions of folders."""

from __future__ import annotations

import argparse
import shlex

import pytest

from vrtspike.data.data_source import DataSource, RawFolder
from vrtspike.deblurring.planning.options import (
    MISSING,
    calibration_options,
    inputs_version,
    raw_folder_json,
    simulated_sequence,
    simulation_options,
)
from vrtspike.deblurring_settings.workflow_settings import (
    CalibrateSettings,
    SimulatedSequence,
    SimulateSettings,
)
from vrtspike.system.errors import ConfigError
from vrtspike.system.options import add_options

DATASET = DataSource(
    name="d",
    root="my data",
    spike_root="my spikes",
    blur_dir="blur_gamma",
    train_split="train",
    test_split="test",
    spike_size=(250, 400),
    layout="spk",
    on_error="stop",
    kind="raw",
)


def test_programs_read_the_folder_of_a_data_set():
    parser = argparse.ArgumentParser()
    add_options(parser, RawFolder, "folder of the raw files")
    arguments = parser.parse_args(["--options", raw_folder_json(DATASET)])
    assert arguments.options == RawFolder("my data", "blur_gamma", "spk", "my spikes", (250, 400))
    with pytest.raises(ConfigError, match="rot: Unexpected keyword argument, found 'a'"):
        parser.parse_args(["--options", '{"root": "my data", "rot": "a"}'])


SIMULATE = SimulateSettings(
    SEQUENCES=(
        SimulatedSequence(FRAMES="f 1", SPLIT="train", SEQUENCE="a"),
        SimulatedSequence(FRAMES="f2", SPLIT="test", SEQUENCE="a", FRAMES_PER_EXPOSURE=7),
    ),
    THETA=3.0,
    DARK_COUNTS=0.01,
    SEED=5,
)


def test_options_of_a_calibration():
    settings = CalibrateSettings(ROOT="mine", DATA="recorded", MOVING="moving", SENSOR=[250, 416])
    assert shlex.split(calibration_options(settings)) == [
        *("--output=mine", "--max-steps=200", "--moving=moving", "--data=recorded"),
        *("--sensor", "250", "416"),
    ]


def test_a_simulated_sequence_is_found_by_split_and_name():
    source = simulated_sequence(SIMULATE, "test", "a")
    assert source.FRAMES == "f2"
    assert shlex.split(simulation_options(SIMULATE, source)) == [
        *("--frames=f2", "--output=data/simulated", "--frames-per-exposure=7"),
        *("--steps-per-frame=8", "--theta=3.0", "--theta-spread=0.0", "--noise=0.0"),
        *("--dark-counts=0.01", "--hot-pixels=0.0", "--dead-pixels=0.0", "--jitter=0.0"),
        *("--seed=5", "--interpolation=linear"),
    ]
    with pytest.raises(ConfigError, match=r"SIMULATE\.SEQUENCES has no test/b"):
        simulated_sequence(SIMULATE, "test", "b")


def test_versions_of_files_change_with_them(tmp_path):
    frame = tmp_path / "train/a/000001.png"
    for path in (frame, tmp_path / "test/b/000001.png"):
        path.parent.mkdir(parents=True)
        path.write_text("picture")
    train = str(tmp_path / "train")
    test = str(tmp_path / "test")

    def versions() -> list[str]:
        return [inputs_version("files", train), inputs_version("files", test, None, train)]

    before = versions()
    (frame.parent / ".hidden").touch()
    assert versions() == before
    frame.write_text("pictura")
    assert set(versions()).isdisjoint(before)
    assert inputs_version("frames", str(tmp_path / "none")) == MISSING
