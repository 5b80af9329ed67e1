from __future__ import annotations

import numpy as np
import pytest

from tests.deblurring.data.scenes import film
from vrtspike.deblurring.data.gate.sensor_guess import find_sensor
from vrtspike.deblurring.data.raw.spikes import write_spikes
from vrtspike.deblurring.data.simulation.sensor import simulate_spikes
from vrtspike.errors import DataError


def spikes(height, width, frames=5):
    """Of a sensor of this size; the frames it looks at have twice its sides."""
    return simulate_spikes(film(1, frames, 2 * height, 2 * width, speed=1)).view(np.uint8)


@pytest.mark.parametrize(("height", "width"), [(48, 80), (80, 48), (64, 64), (33, 56)])
def test_the_size_is_found(tmp_path, height, width):
    write_spikes(tmp_path / "a.dat", spikes(height, width))
    found = find_sensor(tmp_path / "a.dat")
    assert (found.height, found.width, found.area.columns) == (height, width, width)
    assert found.source.startswith("guessed: rows next to each other correlate by 0.")


def test_two_frames_are_not_taken_for_one(tmp_path):
    # Slow pixels are in order with every second step left out, too, and in a still scene one frame
    # above the other looks like a picture.
    dark = [frame // 4 for frame in film(2, 9, 96, 128, speed=0)]
    write_spikes(tmp_path / "a.dat", simulate_spikes(dark))
    found = find_sensor(tmp_path / "a.dat")
    assert (found.height, found.width) == (48, 64)


def test_a_dump_with_head_has_fewer_columns(tmp_path):
    picture = simulate_spikes(film(3, 3, 500, 800, speed=1)).view(np.uint8)
    head = np.random.default_rng(0).integers(0, 2, (len(picture), 250, 16), np.uint8)
    write_spikes(tmp_path / "a.dat", np.concatenate([picture, head], axis=2))
    found = find_sensor(tmp_path / "a.dat")
    assert (found.height, found.width, found.area.columns) == (250, 416, 400)
    assert "Vidar, dump with head" in found.source


def test_a_file_beside_or_above_comes_before_a_guess(tmp_path):
    folder = tmp_path / "sequence/spike"
    folder.mkdir(parents=True)
    write_spikes(folder / "a.dat", spikes(48, 80))
    (tmp_path / "config.yaml").write_text("spike_h: 80\nspike_w: 48\n")
    found = find_sensor(folder / "a.dat")
    assert (found.height, found.width) == (80, 48)
    assert found.source == f"from {tmp_path / 'config.yaml'}"
    # One that is about something else is no hindrance.
    (folder / "config.yaml").write_text("name: walk\n")
    assert find_sensor(folder / "a.dat") == found


def test_an_array_file_says_it_itself(tmp_path):
    np.savez(tmp_path / "a.npz", spk=spikes(24, 40))
    found = find_sensor(tmp_path / "a.npz")
    assert (found.height, found.width, found.source) == (24, 40, "from the file")


def test_what_cannot_be_told_is_asked_for_with_sizes_that_fit(tmp_path):
    file = tmp_path / "a.dat"
    file.write_bytes(bytes(360 * 640 // 8 * 10))  # ten frames without a spike
    told = (
        r"cannot be told from 288000 bytes; .* fit: 360 640 \(Spk-GoPro\), 180 320 \(S-SDM's \w+\)$"
    )
    with pytest.raises(DataError, match=told):
        find_sensor(file)
    random = np.random.default_rng(0)
    file.write_bytes(random.integers(0, 256, 40_000, np.uint8).tobytes())
    with pytest.raises(DataError, match=r"cannot be told .* fit: none"):
        find_sensor(file)
    file.rename(tmp_path / "a.png")
    for path, found in (
        (file, "no such file"),
        ("/dev/null", "a folder, a pipe or a device"),
        (tmp_path / "a.png", r"a file \*\.png"),
    ):
        with pytest.raises(DataError, match=f"{path}: found {found}, expected a spike file"):
            find_sensor(path)


@pytest.mark.shared
def test_sizes_of_real_files(shared):
    gopro = find_sensor(shared / "samples/spk_gopro/000226.dat")
    vidar = find_sensor(shared / "samples/sreds/200_part1_key_id151.dat")
    assert (gopro.height, gopro.width) == (360, 640)
    assert (vidar.height, vidar.width) == (250, 400)
