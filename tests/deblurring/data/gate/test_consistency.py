"""Frames and spikes that are whole, but belong to something else."""

from __future__ import annotations

import re
import shutil
import weakref

import cv2
import numpy as np
import pytest

from tests.deblurring.data.conftest import SEQUENCES
from tests.deblurring.data.prepared import check
from tests.deblurring.data.scenes import film
from vrtspike.deblurring.data.gate.consistency import (
    LEAST_LIKENESS,
    Consistency,
    FrameView,
    gray,
    likeness,
    view_picture,
)
from vrtspike.deblurring.data.raw.spikes import read_spikes, write_spikes
from vrtspike.deblurring.data.simulation.demo import load_photograph
from vrtspike.deblurring.data.simulation.sequence import write_sequence
from vrtspike.io.images import read_rgb, write_png

SEQUENCE, OTHER = SEQUENCES[:2]


@pytest.fixture(scope="session")
def five(tmp_path_factory):
    """A sequence of five exposures, with spikes; not to be changed."""
    root = tmp_path_factory.mktemp("five")
    for seed, name in enumerate((SEQUENCE, OTHER)):
        write_sequence(root / name, slow_film(seed, 56), frames_per_exposure=11)
    return root


def slow_film(number, count):
    """Frames of 96 x 128 of a photograph that moves so slowly that neighbours look alike."""
    scene = load_photograph(("astronaut.png", "coffee.png")[number]).astype(np.uint8)[::2, ::2]
    return [np.ascontiguousarray(scene[40:136, i : i + 128]) for i in range(count)]


@pytest.fixture(params=[True, False], ids=["with spikes", "without spikes"])
def raw(request, five, tmp_path):
    """A copy that a test may damage."""
    ignored = shutil.ignore_patterns() if request.param else shutil.ignore_patterns("spike")
    return shutil.copytree(five, tmp_path / "raw", ignore=ignored)


@pytest.fixture
def spiked(five, tmp_path):
    """The same, with spikes."""
    return shutil.copytree(five, tmp_path / "raw")


def faults(root, name=SEQUENCE):
    return check(root, name)["faults"]


def found(root, pattern):
    """Whether one of the faults is of this kind."""
    return any(re.search(pattern, fault) for fault in faults(root))


def exchange(one, other):
    """Exchange two files or folders."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def test_sound_sequences_have_no_faults(raw):
    assert faults(raw) == faults(raw, OTHER) == []


def test_blurry_frames_of_another_sequence(raw):
    shutil.rmtree(raw / SEQUENCE / "blur")
    shutil.copytree(raw / OTHER / "blur", raw / SEQUENCE / "blur")
    blurry, sharp = (raw / SEQUENCE / kind / "000001.png" for kind in ("blur", "sharp"))
    expected = rf"^{blurry}: does not show the scene of {sharp} .* at least 0\.\d\): put .*likewise"
    assert found(raw, expected)


def test_blurry_and_sharp_frames_exchanged(raw):
    exchange(raw / SEQUENCE / "blur", raw / SEQUENCE / "sharp")
    assert found(raw, r"blur/000001\.png: \d+\.\d times the fine detail of .* exchange")


def test_blurry_frames_equal_to_sharp_ones(raw):
    shutil.rmtree(raw / SEQUENCE / "blur")
    shutil.copytree(raw / SEQUENCE / "sharp", raw / SEQUENCE / "blur")
    assert found(raw, r"blur/000001\.png: the same picture as \S+sharp/000001\.png.*put it there")
    assert found(raw, r"likewise \S+2\.png, \S+3\.png, \S+4\.png, and 1 more\)")


@pytest.mark.parametrize("kind", ["blur", "sharp"])
def test_a_frame_copied_over_its_neighbour(raw, kind):
    folder = raw / SEQUENCE / kind
    # Saved once more: other bytes, the same picture.
    write_png(folder / "000003.png", read_rgb(folder / "000002.png"))
    assert found(raw, rf"{kind}/000003\.png: the same contents as \S+{kind}/000002\.png, but")


@pytest.mark.parametrize("kind", ["blur", "sharp"])
def test_frames_of_neighbours_exchanged(raw, kind):
    folder = raw / SEQUENCE / kind
    exchange(folder / "000002.png", folder / "000003.png")
    assert found(raw, r"blur/000002\.png: more like \S+sharp/000003\.png .* than \S+/000002\.png")


def test_spike_files_of_neighbours_exchanged(spiked):
    folder = spiked / SEQUENCE / "spike"
    exchange(folder / "000002.dat", folder / "000003.dat")
    assert found(
        spiked, r"blur/000002\.png: more like \S+spike/000003\.dat .* than \S+/000002\.dat"
    )


def test_a_sensor_that_sees_another_part_of_the_scene(spiked):
    for path in sorted((spiked / SEQUENCE / "spike").iterdir()):
        write_spikes(path, np.roll(read_spikes(path, 48, 64), 5, axis=1))
    (told,) = [fault for fault in faults(spiked) if "rows down and" in fault]
    assert re.search(r"1\.dat: .* by -5 rows .* calibrate .*likewise 5 of 5 exposures\)", told)


def test_spikes_copied_over_those_of_a_neighbour(spiked):
    folder = spiked / SEQUENCE / "spike"
    shutil.copy(folder / "000002.dat", folder / "000003.dat")
    assert found(spiked, r"spike/000003\.dat: the same contents as \S+spike/000002\.dat")


@pytest.mark.parametrize("numbers", [[1], [3], [1, 2, 3, 4, 5]])
def test_spikes_reversed_in_time(spiked, numbers):
    for number in numbers:
        path = spiked / SEQUENCE / "spike" / f"{number:06d}.dat"
        write_spikes(path, read_spikes(path, 48, 64)[::-1])
    (fault,) = [fault for fault in faults(spiked) if "time runs backwards" in fault]
    assert f"spike/{numbers[0]:06d}.dat: its beginning is more like the frame after" in fault
    assert ("likewise" in fault) == (len(numbers) > 1)


@pytest.mark.parametrize("part", [slice(0, 80), slice(8, 88)])
def test_a_spike_file_cut_by_whole_steps(spiked, part):
    path = spiked / SEQUENCE / "spike/000003.dat"
    write_spikes(path, read_spikes(path, 48, 64)[part])
    steps = part.stop - part.start
    assert found(spiked, rf"spike/000003\.dat holds {steps} spike frames, others 88.*put the whole")


def test_a_longer_exposure_among_others_is_none_of_these(tmp_path):
    """Exposures of one sequence may differ, if their sharp frames lie where T says."""
    frames = slow_film(0, 50)
    write_sequence(tmp_path / "long" / SEQUENCE, frames, frames_per_exposure=13)
    write_sequence(tmp_path / SEQUENCE, frames[13:], frames_per_exposure=11)
    for kind, suffix in (("blur", "png"), ("sharp", "png"), ("spike", "dat")):
        folder = tmp_path / SEQUENCE / kind
        for number in (3, 2, 1):
            (folder / f"00000{number}.{suffix}").rename(folder / f"00000{number + 1}.{suffix}")
        shutil.copy(tmp_path / "long" / SEQUENCE / kind / f"000001.{suffix}", folder)
    assert faults(tmp_path) == []


def test_whatever_moves_far_in_an_exposure_is_the_same_scene(tmp_path):
    write_sequence(tmp_path / SEQUENCE, film(8, 34, speed=14), frames_per_exposure=11)
    assert faults(tmp_path) == []


def test_a_still_scene_without_noise_may_repeat_itself(tmp_path):
    still = slow_film(0, 1) * 34
    write_sequence(tmp_path / SEQUENCE, still, frames_per_exposure=11)
    shutil.rmtree(tmp_path / SEQUENCE / "spike")
    assert faults(tmp_path) == []


def judged(blur, sharp):
    """What is said of a frame without neighbours."""
    check = Consistency()
    views = [view_picture(kind, gray(it)) for kind, it in (("blur", blur), ("sharp", sharp))]
    check.add(FrameView(*views))
    return "".join(check.finish())


def test_pictures_of_three_frames_are_kept_however_long_a_sequence_is():
    check, kept = Consistency(), []
    for picture in map(gray, slow_film(0, 6)):
        pictures = [view_picture(kind, picture) for kind in ("blur", "sharp")]
        kept.append(weakref.ref(pictures[0].coarse))
        check.add(FrameView(*pictures))
    del pictures
    assert [each() is not None for each in kept] == [False] * 3 + [True] * 3


@pytest.mark.parametrize(("sigma", "refused"), [(0.35, False), (0.4, True)])
def test_a_little_more_detail_is_no_exchange(sigma, refused):
    """A sharp frame may be out of focus; a little less than the blurry one is its sign."""
    picture = slow_film(0, 1)[0]
    soft = cv2.GaussianBlur(picture, (0, 0), sigma)
    assert ("fine detail" in judged(picture, soft)) == refused


def test_real_frames(shared):
    """A blurry GoPro frame belongs to its sharp frame, the frames after it do not."""
    folder = shared / "samples/gopro_test/GOPR0384_11_00"
    sharp = read_rgb(folder / "sharp/000001.png")
    blurry = [read_rgb(path) for path in sorted((folder / "blur").glob("*.png"))]
    assert judged(blurry[0], sharp) == ""
    assert "fine detail" in judged(sharp, blurry[0])
    for blur in blurry[1:]:
        assert "does not show the scene" in judged(blur, sharp)
    other = read_rgb(shared / "samples/spk_gopro/000226.png")
    assert "does not show the scene" in judged(blurry[0], other)


@pytest.mark.parametrize(
    ("name", "size", "parts"),
    [("spk_gopro/000226.dat", (360, 640), 3), ("sreds/200_part1_key_id151.dat", (250, 400), 5)],
)
def test_real_spikes_know_the_direction_of_time(shared, tmp_path, name, size, parts):
    """A real recording divided into exposures; its blurry frames are the means of its spikes."""
    spikes = read_spikes(shared / "samples" / name, *size)
    steps = len(spikes) // parts // 8 * 8
    for number in range(parts):
        exposure = spikes[number * steps : (number + 1) * steps]
        middle = exposure[steps // 2 - 10 : steps // 2 + 2]
        for kind, picture in (("blur", exposure), ("sharp", middle)):
            grey = np.clip(picture.mean(axis=0) * 510, 0, 255).astype(np.uint8)
            write_png(tmp_path / SEQUENCE / kind / f"{number}.png", np.dstack([grey] * 3))
        path = tmp_path / SEQUENCE / "spike" / f"{number}.dat"
        write_spikes(path, exposure)
    (tmp_path / SEQUENCE / "config.yaml").write_text(f"spike_h: {size[0]}\nspike_w: {size[1]}\n")
    assert not found(tmp_path, "backwards|more like|does not show")
    write_spikes(path, exposure[::-1])
    assert found(tmp_path, rf"{path.name}: its beginning .* time runs backwards")


# --- Whether two frames show one scene ------------------------------------------------------------


@pytest.fixture
def frame() -> np.ndarray:
    ramp = np.linspace(50, 200, 96)
    waves = 20 * np.sin(np.arange(64) / 5)[:, None]
    return np.repeat((ramp + waves).round().astype(np.uint8)[..., None], 3, axis=-1)


def test_brightness_contrast_and_fine_detail_count_nothing(frame):
    assert likeness(frame, frame) == pytest.approx(1)
    assert likeness(frame // 2 + 9, frame) == pytest.approx(1, abs=1e-3)
    assert likeness(255 - frame, frame) == pytest.approx(-1)
    rows, columns = np.mgrid[:64, :96]
    board = np.where((rows + columns) % 2, 40, 0).astype(np.uint8)[..., None]
    assert likeness(frame + board, frame) > 0.98
    assert abs(likeness(frame[:, ::-1], frame)) < 1
    assert likeness(frame[:, ::-1], frame) < LEAST_LIKENESS


def test_a_frame_without_contrast_tells_nothing(frame):
    assert likeness(np.full_like(frame, 90), frame) == 1
