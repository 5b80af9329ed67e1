"""The check of spikes against frames."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.data.raw.published import PUBLISHED
from tests.data.scenes import film
from tests.helpers.small_run import SmallRun, recorded_clip
from vrtspike.data.exposure import Exposure, exposure_table
from vrtspike.data.raw.spikes import write_spikes
from vrtspike.data.simulation.sensor import simulate_spikes, synthesize_blur
from vrtspike.io.images import write_png
from vrtspike.restoration.checks.spike_fit import find_spike_mismatches
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.system.errors import DataError

STEPS = 56


def test_exposures_at_wrong_steps_are_reported(tmp_path):
    PUBLISHED["one stream"].write(tmp_path)
    clip = tmp_path / "train/a"
    assert find_spike_mismatches(recorded_clip(clip / "blur", clip / "spike.dat")) == {}
    (clip / "exposures.csv").unlink()  # all 192 steps are then divided, with the shutter open
    ((frame, fault),) = find_spike_mismatches(
        recorded_clip(clip / "blur", clip / "spike.dat")
    ).items()
    assert frame is None
    assert "frames are most like the spikes 16 steps from their exposures" in fault


def test_a_single_step_is_not_compared_with_its_frame(tmp_path):
    rng = np.random.default_rng(2)
    frame = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    write_png(tmp_path / "blur" / "1.png", frame)
    write_spikes(tmp_path / "spike" / "1.dat", rng.integers(0, 2, (1, 32, 32), dtype=np.uint8))
    with pytest.raises(DataError, match=r"1\.dat: found 1 steps, expected a multiple of 8"):
        recorded_clip(tmp_path / "blur", tmp_path / "spike", 1)
    table = tmp_path / "spike" / "exposures.csv"
    table.write_text(exposure_table({"1": Exposure(0, 1, 0)}))
    assert find_spike_mismatches(recorded_clip(tmp_path / "blur", tmp_path / "spike", 1)) == {}
    other = shutil.copy(table, tmp_path)
    with pytest.raises(DataError, match=rf"several tables of exposures: {table}, {other}; keep"):
        recorded_clip(tmp_path / "blur", tmp_path / "spike", 1)
    table.unlink()
    assert (
        recorded_clip(tmp_path / "blur", tmp_path / "spike", 1).spikes.frames[0].exposure.steps == 1
    )
    Path(other).unlink()
    write_spikes(tmp_path / "spike" / "1.dat", rng.integers(0, 2, (40, 32, 32), dtype=np.uint8))
    assert len(find_spike_mismatches(recorded_clip(tmp_path / "blur", tmp_path / "spike", 1))) == 1


def test_a_wrong_sensor_size_is_reported(tmp_path):
    video = film(1, 9, 500, 800, speed=1)
    blur, spike = tmp_path / "blur", tmp_path / "spike"
    write_png(blur / "1.png", synthesize_blur(video[:8]))
    # The last 16 columns are no picture: of both sizes it is as large.
    write_spikes(spike / "1.dat", np.pad(simulate_spikes(video)[:50], ((0, 0), (0, 0), (0, 16))))
    (tmp_path / "exposures.csv").write_text("frame,start,stop,sharp\n1,0,50,25\n")
    (fault,) = find_spike_mismatches(recorded_clip(blur, spike)).values()
    assert "a wrong sensor size (250 x 400)" in fault
    (tmp_path / "config.yaml").write_text("spike_h: 250\nspike_w: 416\n")
    assert find_spike_mismatches(recorded_clip(blur, spike)) == {}


def continuous_recording(small_run: SmallRun, folder: Path, third: str) -> InputClip:
    """Every second frame of a recording of 280 steps, with this line for the second of the three.

    A shutter was closed between them, so that a wrong exposure need not overlap with another one.
    """
    sequence = small_run.raw / "test/b"
    shutil.copytree(sequence / "blur", folder / "blur")
    files = sorted((sequence / "spike").iterdir())
    (folder / "spike.dat").write_bytes(b"".join(path.read_bytes() for path in files))
    for name in ("000002", "000004"):
        (folder / f"blur/{name}.png").unlink()
    lines = [f"{n + 1:06d},{56 * n},{56 * n + 56},{56 * n + 24}" for n in (0, 2, 4)]
    lines[1] = f"000003,{third}"
    (folder / "exposures.csv").write_text("\n".join(["frame,start,stop,sharp", *lines]))
    return recorded_clip(folder / "blur", folder / "spike.dat")


@pytest.mark.parametrize(
    ("third", "steps", "away"),
    [
        ("150,206,174", "150 to 205", "4[0-4] steps earlier"),
        ("62,118,86", "62 to 117", "[45][0-9] steps later"),
    ],
)
def test_a_single_wrong_line_of_a_table_is_reported(small_run, tmp_path, third, steps, away):
    ((frame, fault),) = find_spike_mismatches(
        continuous_recording(small_run, tmp_path, third)
    ).items()
    assert frame == 1
    assert re.search(
        rf"exposures\.csv, frame 000003: found the exposure of steps {steps}, .*{away}", fault
    )
    assert fault.endswith("while other frames fit their exposures; correct its line")


def test_right_lines_of_a_table_are_accepted(small_run, tmp_path):
    assert find_spike_mismatches(continuous_recording(small_run, tmp_path, "112,168,136")) == {}
