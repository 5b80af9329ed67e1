"""Exposures of another length than the blur shows."""

from __future__ import annotations

import itertools
import shutil

import numpy as np
import pytest

from tests.data.conftest import SEQUENCES
from tests.data.prepared import check
from tests.data.scenes import film, packed
from vrtspike.data.checks.exposure_faults import (
    MIN_GAIN,
    AlternativeLength,
    compare_lengths,
    length_faults,
)
from vrtspike.data.exposure import EXPOSURE_TABLE, Exposure, exposure_table
from vrtspike.data.simulation.sensor import SimulatedSensor, integrate_and_fire
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.io.images import luma, shrink

SEQUENCE = SEQUENCES[0]
SENSORS = {
    "plain": SimulatedSensor(),
    "linear light": SimulatedSensor(LIGHT_GAMMA=2.2),
    "noisy": SimulatedSensor(NOISE=0.1, JITTER=0.2, DARK_COUNTS=0.01),
}


def join_files(folder, exposures):
    """Make one recording of a sequence's spike files, with a table of exposures."""
    files = sorted((folder / "spike").iterdir())
    (folder / "spike.dat").write_bytes(b"".join(path.read_bytes() for path in files))
    shutil.rmtree(folder / "spike")
    (folder / EXPOSURE_TABLE).write_text(exposure_table(exposures))


def around(number, steps):
    """An exposure of so many steps around the middle of the one of 88 with this number."""
    first = 88 * (number - 1)
    return Exposure(first + 44 - steps // 2, first + 44 + steps // 2, first + 40)


def exposure_faults(root):
    return [fault for fault in check(root, SEQUENCE)["faults"] if "the shutter was open" in fault]


@pytest.mark.parametrize("sensor", SENSORS)
def test_half_the_exposure_is_a_fault(tmp_path, sensor):
    folder = tmp_path / SEQUENCE
    write_sequence(folder, film(0, 56), frames_per_exposure=11, sensor=SENSORS[sensor])
    names = [path.stem for path in sorted((folder / "blur").iterdir())]
    table = {name: Exposure(18, 62, 40) for name in names}
    assert check(tmp_path, SEQUENCE)["faults"] == []
    (folder / EXPOSURE_TABLE).write_text(exposure_table(table))
    (fault,) = exposure_faults(tmp_path)
    assert "fit 80 steps around the middle of their exposures better than the 44" in fault
    assert "open for a longer time; correct start and stop in exposures.csv" in fault
    join_files(folder, {name: around(int(name), 44) for name in names})
    (fault,) = exposure_faults(tmp_path)
    assert "fit 88 steps" in fault
    (folder / EXPOSURE_TABLE).write_text(
        exposure_table({name: around(int(name), 88) for name in names})
    )
    assert check(tmp_path, SEQUENCE)["faults"] == []


@pytest.mark.parametrize("sensor", SENSORS)
def test_twice_the_exposure(tmp_path, sensor):
    folder = tmp_path / SEQUENCE
    write_sequence(folder, film(0, 100), frames_per_exposure=11, sensor=SENSORS[sensor])
    # Every second frame is left out, so that exposures of twice the length do not overlap.
    table = {}
    for path in sorted((folder / "blur").iterdir()):
        number = int(path.stem)
        for kind in ("blur", "sharp"):
            picture = folder / kind / path.name
            if number % 2 == 0 and number < 9:
                picture.rename(picture.with_stem(f"{number // 2:02d}"))
            else:
                picture.unlink()
        if number % 2 == 0 and number < 9:
            table[f"{number // 2:02d}"] = number
    join_files(folder, {name: around(number, 88) for name, number in table.items()})
    assert check(tmp_path, SEQUENCE)["faults"] == []
    twice = {name: around(number, 176) for name, number in table.items()}
    (folder / EXPOSURE_TABLE).write_text(exposure_table(twice))
    (fault,) = exposure_faults(tmp_path)
    assert "fit 88 steps around the middle of their exposures better than the 176" in fault
    assert "open for a shorter time" in fault


def test_a_still_scene_does_not_tell(tmp_path):
    folder = tmp_path / SEQUENCE
    write_sequence(folder, film(0, 1) * 45, frames_per_exposure=11)
    table = {path.stem: Exposure(18, 62, 40) for path in (folder / "blur").iterdir()}
    (folder / EXPOSURE_TABLE).write_text(exposure_table(table))
    assert check(tmp_path, SEQUENCE)["faults"] == []


@pytest.mark.parametrize(("count", "is_reported"), [(2, False), (3, True)])
def test_a_few_exposures_do_not_tell(count, is_reported):
    longer = AlternativeLength(
        steps=80, likeness=0.99, gain=0.04, exposure=44, exposure_likeness=0.95
    )
    assert bool(length_faults("a.dat", [longer] * count)) == is_reported


def compared(rate, picture):
    """The lengths of an exposure of 44 steps of a still picture, with 22 before and after it."""
    small = shrink(rate / np.float32(255), 48, 64)
    spikes = np.stack(list(integrate_and_fire(itertools.repeat(small, 88), SimulatedSensor())))
    before, exposure, after = (packed(spikes[i:j]) for i, j in ((0, 22), (22, 66), (66, 88)))
    return compare_lengths(exposure, np.rint(picture).astype(np.uint8), [before, after])


def test_less_noise_in_a_longer_window_is_no_better_fit():
    gray = luma(film(0, 1)[0])
    faint = 110 + (gray - 110) * np.float32(0.3)
    longer = compared(faint, faint)[-1]
    assert longer.kind == "longer"
    assert longer.likeness > longer.exposure_likeness + 2 * MIN_GAIN
    assert longer.gain < 0


def test_spikes_that_show_a_picture_in_part_do_not_tell():
    one, other = (luma(film(seed, 1)[0]) for seed in range(2))
    assert [length.kind for length in compared(one, one)] == ["shorter", "longer"]
    assert compared(one, (one + other) / 2) == []
