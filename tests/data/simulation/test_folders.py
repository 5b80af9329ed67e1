"""Simulation of whole data sets; the command line is tested in tests/data/test_scripts.py."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from tests.data.scenes import film
from vrtspike.data.exposure import read_exposures
from vrtspike.data.simulation.folders import (
    refuse_pairs,
    simulate,
    simulate_folders,
    simulate_spikes_of_pairs,
)
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import FrameFolder, write_sequence
from vrtspike.io.images import write_png
from vrtspike.system.errors import ConfigError, DataError


def write_frames(folder, count: int) -> None:
    folder.mkdir(parents=True)
    for number, frame in enumerate(film(0, count, 32, 32)):
        write_png(folder / f"{number}.png", frame)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (None, "2 exposures from 14 frames, 1 frames left over"),
        (5, "3 exposures from 15 frames"),
    ],
)
def test_the_name_of_a_folder_gives_the_frames_of_an_exposure(tmp_path, options, line, capsys):
    frames = tmp_path / "GOPR0372_07_00"
    write_frames(frames, 15)
    folders = [FrameFolder(frames, "train", frames.name)]
    simulate_folders(folders, tmp_path / "out", SimulatedSensor(), options)
    folder = tmp_path / "out/train" / frames.name
    assert capsys.readouterr().out == f"{folder}: {line}\n"
    assert (folder / "spike/000001.dat").is_file()


def test_nothing_is_written_if_a_folder_cannot_be_simulated(tmp_path):
    write_frames(tmp_path / "a", 3)
    folders = [FrameFolder(tmp_path / name, "train", name) for name in ("a", "missing")]
    with pytest.raises(DataError, match=r"nothing was written \(1\)"):
        simulate_folders(folders, tmp_path / "out", SimulatedSensor(), 3)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def pairs(tmp_path):
    """A data set of two sequences with spikes."""
    root = tmp_path / "pairs"
    for seed, name in enumerate(("train/a", "test/b")):
        write_sequence(root / name, film(seed, 9, 32, 32), frames_per_exposure=3)
    return root


def test_blurry_frames_beside_sharp_ones_are_refused(pairs, tmp_path):
    with pytest.raises(DataError, match=r"layout spk_gopro\), expected folders of sharp frames"):
        refuse_pairs(pairs)
    write_frames(tmp_path / "frames/train/a", 3)
    refuse_pairs(tmp_path / "frames")


def test_spikes_of_pairs(pairs, tmp_path, capsys):
    output = tmp_path / "spikes"
    with pytest.raises(DataError, match="has spikes already"):
        simulate_spikes_of_pairs(pairs, output, SimulatedSensor())
    for folder in pairs.glob("*/*/spike"):
        shutil.rmtree(folder)
    simulate_spikes_of_pairs(pairs, output, SimulatedSensor())
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"{output}/{name}: spikes of 3 frames" for name in ("test/b", "train/a")
    ]
    assert all((output / name / "spike.dat").is_file() for name in ("test/b", "train/a"))


@pytest.mark.parametrize("steps", [1, 3, 8])
def test_the_exposures_of_pairs_abut(pairs, tmp_path, steps):
    for folder in pairs.glob("*/*/spike"):
        shutil.rmtree(folder)
    simulate_spikes_of_pairs(pairs, tmp_path, SimulatedSensor(STEPS_PER_FRAME=steps))
    exposures = [*read_exposures(tmp_path / "train/a/exposures.csv").values()]
    assert [exposure.sharp for exposure in exposures] == [steps, 2 * steps, 3 * steps]
    assert {exposure.steps for exposure in exposures} == {steps}
    assert all(one.stop == next_one.start for one, next_one in pairwise(exposures))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "found no frames, expected one of --frames, --source and --pairs"),
        (
            {"frames": Path("frames"), "splits": ["test"], "layout": "gopro"},
            "found --splits and --layout with --frames, which changes nothing there",
        ),
        (
            {"source": Path("films"), "sequence": "a"},
            "found --sequence with --source, which changes nothing there",
        ),
        (
            {"pairs": Path("pairs"), "frames_per_exposure": 7, "sensor": {"GAMMA": 2.2}},
            "found --frames-per-exposure and --gamma with --pairs, which changes nothing there",
        ),
        ({"frames": Path("frames"), "sensor": {"NOISE": -1}}, "--noise: "),
    ],
)
def test_requests_are_refused_before_anything_is_read(changes, message):
    with pytest.raises(ConfigError) as caught:
        simulate(**{"output": Path("spikes"), "sensor": {"NOISE": "0.02"}, **changes})
    assert message in str(caught.value)
