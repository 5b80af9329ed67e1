from __future__ import annotations

import shlex

import pytest

from vrtspike.config.workflow import Workflow, workflow_schema
from vrtspike.deblurring.planning.options import (
    clip_options,
    raw_file_options,
    sensor_option,
    simulated_sequence,
    simulation_options,
)
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.settings.workflow import SimulatedSequence, SimulateSettings
from vrtspike.deblurring.videos import Dataset, Videos
from vrtspike.errors import ConfigError

DATASET = Dataset("d", "my data", "blur_gamma", "train", "test", (250, 400), "spk", "stop", "raw")


def test_options_survive_the_shell():
    assert shlex.split(raw_file_options(DATASET)) == [
        "--root=my data",
        "--blur-dir=blur_gamma",
        "--layout=spk",
    ]
    assert sensor_option(DATASET) == "--spike-size 250 400"


def test_an_unknown_sensor_gives_no_option():
    unknown = Dataset("d", "r", "blur", "train", "test", None, "auto", "stop", "raw")
    assert sensor_option(unknown) == ""


def preset(root: str, clip: int, crop: int, **train) -> Settings:
    data = {"ROOT": root, "CLIP_LEN": clip, "CROP_SIZE": crop}
    return Settings.model_validate({"DATA": data, "TRAIN": train})


def test_the_gate_asks_what_the_least_demanding_preset_on_the_data_takes():
    phases = [{"CROP_SIZE": 64, "EPOCHS": 1}, {"CROP_SIZE": 128, "EPOCHS": 1}]
    presets = {
        "one": preset("a", 5, 96, PROGRESSIVE=phases),
        "two": preset("a", 3, 256),
        "elsewhere": preset("b", 2, 32),
    }
    options = shlex.split(clip_options(Videos(Workflow(workflow_schema()(), presets)), "a"))
    assert options[:3] == ["--clip-length", "3", "--crop-sizes"]
    assert set(options[3:]) == {"train=128", "test=96"}


SIMULATE = SimulateSettings(
    SEQUENCES=(
        SimulatedSequence(FRAMES="f 1", SPLIT="train", SEQUENCE="a"),
        SimulatedSequence(FRAMES="f2", SPLIT="test", SEQUENCE="a", FRAMES_PER_EXPOSURE=7),
    ),
    THETA=3.0,
    SEED=5,
)


def test_a_simulated_sequence_is_found_by_split_and_name():
    found = simulated_sequence(SIMULATE, "test", "a")
    assert found.FRAMES == "f2"
    assert shlex.split(simulation_options(SIMULATE, found)) == [
        *("--frames=f2", "--output=data/simulated", "--frames-per-exposure=7"),
        *("--steps-per-frame=8", "--theta=3.0", "--gamma=none", "--seed=5"),
        "--interpolation=linear",
    ]
    with pytest.raises(ConfigError, match=r"SIMULATE\.SEQUENCES has no test/b"):
        simulated_sequence(SIMULATE, "test", "b")
