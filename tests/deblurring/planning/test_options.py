"""Options of the data stages."""

from __future__ import annotations

import argparse
import dataclasses
import shlex

import pytest

from vrtspike.config.workflow import Workflow
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.data.data_source import DataSource, RawFolder
from vrtspike.data.gate.options import GateOptions
from vrtspike.data.raw.layouts.registry import add_raw_folder, raw_folder
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.deblurring.planning.options import (
    calibration_options,
    gate_options,
    raw_folder_options,
    sensor_option,
    simulated_sequence,
    simulation_options,
    store_options,
)
from vrtspike.settings import Settings
from vrtspike.settings.generated_data import CalibrateSettings, SimulatedSequence, SimulateSettings
from vrtspike.settings.stores import StoreOptions
from vrtspike.system.errors import ConfigError

DATASET = DataSource(
    name="d",
    root="my data",
    blur_dir="blur_gamma",
    train_split="train",
    test_split="test",
    spike_size=(250, 400),
    layout="spk",
    on_error="stop",
    kind="raw",
)


def test_options_survive_the_shell():
    options = ["--root=my data", "--blur-dir=blur_gamma", "--layout=spk"]
    assert shlex.split(raw_folder_options(DATASET)) == options
    assert sensor_option(DATASET) == "--spike-size 250 400"
    assert sensor_option(dataclasses.replace(DATASET, spike_size=None)) == ""


def test_programs_read_the_options_of_a_folder():
    folder = RawFolder("my data", "blur_gamma", "kair", "my spikes")
    parser = argparse.ArgumentParser()
    add_raw_folder(parser)
    words = shlex.split(raw_folder_options(folder))
    assert raw_folder(parser.parse_args(words)) == folder


def preset(root: str, clip: int, crop: int, *, train=None, **data) -> Settings:
    data |= {"ROOT": root, "CLIP_LEN": clip, "CROP_SIZE": crop}
    return Settings.model_validate({"DATA": data, "TRAIN": train or {}})


def test_the_gate_requires_what_the_least_demanding_preset_requires():
    phases = [{"CROP_SIZE": 64, "EPOCHS": 1}, {"CROP_SIZE": 128, "EPOCHS": 1}]
    presets = {
        "one": preset("a", 5, 96, train={"PROGRESSIVE": phases}),
        "two": preset("a", 3, 256),
        "elsewhere": preset("b", 2, 32),
    }
    workflow = DeblurringWorkflow(Workflow(workflow_schema()(), presets))
    # Validation looks at training sequences; evaluation takes whole frames of any size.
    assert gate_options(workflow, "one", 16) == GateOptions(
        stores=StoreOptions(bins=16), clip_length=3, crop_sizes={"train": 128, "test": 1}
    )


def test_the_gate_has_the_keys_of_the_data_set():
    data = {
        "CONTEXT_STEPS": 4,
        "TRAIN_SPLIT": "a",
        "TEST_SPLIT": "b",
        "TEST_ON_TRAINING_FRAMES": True,
        "ON_ERROR": "exclude",
    }
    workflow = DeblurringWorkflow(
        Workflow(workflow_schema()(), {"one": preset("walk", 5, 96, **data)})
    )
    (name,) = workflow.dataset_names
    assert name == "walk-exclude-context4-test_on_training"
    assert gate_options(workflow, "one", 16) == GateOptions(
        stores=StoreOptions(bins=16, context=4),
        clip_length=5,
        crop_sizes={"a": 96, "b": 1},
        splits=("a", "b"),
        test_on_training_frames=True,
        on_error="exclude",
    )
    assert store_options(workflow, "one", 8) == StoreOptions(bins=8, context=4)


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
