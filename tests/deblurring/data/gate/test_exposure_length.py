"""Exposures of another length than the blur shows."""

from __future__ import annotations

import shutil

import pytest

from tests.deblurring.data.conftest import SEQUENCES
from tests.deblurring.data.prepared import check
from tests.deblurring.data.scenes import film
from vrtspike.deblurring.data.exposure import TABLE, Exposure, exposure_table
from vrtspike.deblurring.data.simulation.sensor import Simulation
from vrtspike.deblurring.data.simulation.sequence import write_sequence

SEQUENCE = SEQUENCES[0]
SENSORS = {
    "plain": Simulation(),
    "linear light": Simulation(LIGHT_GAMMA=2.2),
    "noisy": Simulation(NOISE=0.1, JITTER=0.2, DARK_COUNTS=0.01),
}


def join_files(folder, exposures):
    """Make one recording of a sequence's spike files, with a table of exposures."""
    files = sorted((folder / "spike").iterdir())
    (folder / "spike.dat").write_bytes(b"".join(path.read_bytes() for path in files))
    shutil.rmtree(folder / "spike")
    (folder / TABLE).write_text(exposure_table(exposures))


def around(number, steps):
    """An exposure of so many steps around the middle of the one of 88 with this number."""
    first = 88 * (number - 1)
    return Exposure(first + 44 - steps // 2, first + 44 + steps // 2, first + 40)


def length_faults(root):
    return [fault for fault in check(root, SEQUENCE)["faults"] if "the shutter was open" in fault]


@pytest.mark.parametrize("sensor", SENSORS)
def test_half_the_exposure(tmp_path, sensor):
    folder = tmp_path / SEQUENCE
    write_sequence(folder, film(0, 56), frames_per_exposure=11, how=SENSORS[sensor])
    names = [path.stem for path in sorted((folder / "blur").iterdir())]
    table = {name: Exposure(18, 62, 40) for name in names}
    assert check(tmp_path, SEQUENCE)["faults"] == []
    (folder / TABLE).write_text(exposure_table(table))
    (fault,) = length_faults(tmp_path)
    assert "fit 80 steps around the middle of their exposures better than the 44" in fault
    assert "open for a longer time; correct start and stop in exposures.csv" in fault
    join_files(folder, {name: around(int(name), 44) for name in names})
    (fault,) = length_faults(tmp_path)
    assert "fit 88 steps" in fault
    (folder / TABLE).write_text(exposure_table({name: around(int(name), 88) for name in names}))
    assert check(tmp_path, SEQUENCE)["faults"] == []


@pytest.mark.parametrize("sensor", SENSORS)
def test_twice_the_exposure(tmp_path, sensor):
    folder = tmp_path / SEQUENCE
    write_sequence(folder, film(0, 100), frames_per_exposure=11, how=SENSORS[sensor])
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
    (folder / TABLE).write_text(exposure_table(twice))
    (fault,) = length_faults(tmp_path)
    assert "fit 88 steps around the middle of their exposures better than the 176" in fault
    assert "open for a shorter time" in fault


def test_a_still_scene_does_not_tell(tmp_path):
    folder = tmp_path / SEQUENCE
    write_sequence(folder, film(0, 1) * 45, frames_per_exposure=11)
    table = {path.stem: Exposure(18, 62, 40) for path in (folder / "blur").iterdir()}
    (folder / TABLE).write_text(exposure_table(table))
    assert check(tmp_path, SEQUENCE)["faults"] == []
