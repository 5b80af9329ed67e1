"""Intact frames and spikes that do not belong together."""

from __future__ import annotations

import re
import shutil
import weakref

import cv2
import numpy as np
import pytest

from tests.data.checks.sequences import OTHER, SEQUENCE, faults, has_fault, recode, slow_film
from tests.data.scenes import film
from vrtspike.data.checks.consistency import Consistency
from vrtspike.data.checks.frame_summaries import FrameSummary, summarize_image
from vrtspike.data.exposure import EXPOSURE_TABLE, Exposure, exposure_table
from vrtspike.data.raw.spikes import read_spikes, write_spikes
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.io.images import read_rgb, write_png


def exchange(one, other):
    """Exchange two files or folders."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def copy(one, other):
    """Copy a file or a folder over another."""
    if one.is_dir():
        shutil.rmtree(other)
        shutil.copytree(one, other)
    elif one.suffix == ".png":  # other bytes, the same picture
        write_png(other, read_rgb(one))
    else:
        shutil.copy(one, other)


def test_sound_sequences_have_no_faults(raw):
    assert faults(raw) == faults(raw, OTHER) == []


NEIGHBOR = r"blur/000002\.png: more like \S+{0}/000003\.{1} .* than \S+/000002\.{1}"


@pytest.mark.parametrize(
    ("change", "one", "other", "fault"),
    [
        (
            *(copy, "../GOPR0002_11_00/blur", "blur"),
            r"blur/000001\.png: does not show the scene of \S+sharp/000001\.png .* least 0\.\d\)",
        ),
        (exchange, "blur", "sharp", r"blur/000001\.png: \d+\.\d times the fine detail of .* exch"),
        (
            *(copy, "sharp", "blur"),
            r"blur/000001\.png: the same picture as \S+sharp/000001\.png.*put it there"
            r" \(likewise \S+2\.png, \S+3\.png, \S+4\.png, and 1 more\)",
        ),
        (copy, "blur/000002.png", "blur/000003.png", r"blur/000003\.png: .* contents as \S+2\.png"),
        (copy, "sharp/000002.png", "sharp/000003.png", r"p/000003\.png: .* contents as \S+2\.png"),
        (exchange, "blur/000002.png", "blur/000003.png", NEIGHBOR.format("sharp", "png")),
        (exchange, "sharp/000002.png", "sharp/000003.png", NEIGHBOR.format("sharp", "png")),
    ],
)
def test_mixed_up_frames_are_faults(raw, change, one, other, fault):
    change(raw / SEQUENCE / one, raw / SEQUENCE / other)
    assert has_fault(raw, fault)
    # Levels of different pictures are not compared.
    assert not has_fault(raw, "means differ|times the contrast")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (exchange, NEIGHBOR.format("spike", "dat")),
        (copy, r"3\.dat: the same contents as \S+2\.dat"),
    ],
)
def test_spikes_of_a_neighbour_are_a_fault(spiked, change, fault):
    folder = spiked / SEQUENCE / "spike"
    change(folder / "000002.dat", folder / "000003.dat")
    assert has_fault(spiked, fault)


def backwards(spikes):
    return spikes[::-1]


BACKWARDS = "its beginning is more like the frame after .* time runs backwards"


@pytest.mark.parametrize(
    ("numbers", "change", "fault"),
    [
        ((1,), backwards, rf"1\.dat: {BACKWARDS}[^(]*$"),
        ((3,), backwards, rf"3\.dat: {BACKWARDS}[^(]*$"),
        ((1, 2, 3, 4, 5), backwards, rf"1\.dat: {BACKWARDS}.*likewise"),
        ((3,), lambda spikes: spikes[:80], r"3\.dat holds 80 steps, others 88.*the whole"),
        ((3,), lambda spikes: spikes[8:], r"3\.dat holds 80 steps, others 88.*the whole"),
        (
            (1, 2, 3, 4, 5),
            lambda spikes: np.roll(spikes, 5, axis=1),
            r"1\.dat: .* by -5 rows down .* calibrate .*\(5 of 5 exposures\)",
        ),
    ],
)
def test_reversed_cut_or_shifted_spikes_are_faults(spiked, numbers, change, fault):
    for number in numbers:
        path = spiked / SEQUENCE / "spike" / f"{number:06d}.dat"
        write_spikes(path, change(read_spikes(path, 48, 64)))
    assert has_fault(spiked, fault)


def test_a_longer_exposure_among_others_is_no_fault(tmp_path):
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


def test_fast_and_still_scenes_have_no_faults(tmp_path):
    for name, frames in (("far", film(8, 34, speed=14)), ("still", slow_film(0, 1) * 34)):
        write_sequence(tmp_path / "train" / name, frames, frames_per_exposure=11)
    shutil.rmtree(tmp_path / "train/still/spike")
    assert faults(tmp_path, "train/far") == faults(tmp_path, "train/still") == []


@pytest.mark.parametrize("level", [0, 90])
@pytest.mark.parametrize("kinds", [("blur",), ("sharp",), ("blur", "sharp")])
def test_pictures_of_one_colour_with_sound_spikes(spiked, kinds, level):
    for kind in kinds:
        recode(spiked, f"{SEQUENCE}/{kind}/*.png", lambda picture: np.full_like(picture, level))
    assert has_fault(
        spiked, rf"{kinds[0]}/000001\.png: a picture of one colour .*\.dat shows a scene"
    )


@pytest.mark.parametrize("kinds", [("blur", "sharp"), ("sharp", "blur")])
def test_pictures_of_one_colour_whose_partners_show_a_scene(five, tmp_path, kinds):
    flat, partner = kinds
    root = shutil.copytree(five, tmp_path / "raw", ignore=shutil.ignore_patterns("spike"))
    recode(root, f"{SEQUENCE}/{flat}/*.png", np.zeros_like)
    assert has_fault(
        root, rf"{flat}/000001\.png: a picture of one .*{partner}/000001\.png shows a scene"
    )


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (lambda spikes: spikes[8:], 32),
        (lambda spikes: spikes[:-8], 40),
        (lambda spikes: spikes[16:], 24),
        (lambda spikes: spikes[:-16], 40),
    ],
)
def test_all_spike_files_cut(spiked, change, step):
    for path in (spiked / SEQUENCE / "spike").iterdir():
        write_spikes(path, change(read_spikes(path, 48, 64)))
    pattern = r"the sharp frames lie at step ([\d.]+) of .* shifted against each other, or .* cut"
    (lies,) = (match for fault in faults(spiked) if (match := re.search(pattern, fault)))
    assert float(lies[1]) == pytest.approx(step, abs=1)


@pytest.mark.parametrize(
    ("cut", "exposure"),
    [
        (slice(8, None), Exposure(0, 80, 32)),
        (slice(None, -8), Exposure(0, 80, 40)),
    ],
)
def test_a_table_gives_other_sharp_instants(spiked, cut, exposure):
    """Without a table such a camera looks like one whose files were cut."""
    table = {}
    for path in (spiked / SEQUENCE / "spike").iterdir():
        write_spikes(path, read_spikes(path, 48, 64)[cut])
        table[path.stem] = exposure
    assert has_fault(spiked, r"the files are cut; .* or give the sharp instants in exposures\.csv")
    (spiked / SEQUENCE / EXPOSURE_TABLE).write_text(exposure_table(table))
    assert faults(spiked) == []


def test_all_spike_files_shifted_by_a_source_frame(spiked):
    paths = sorted((spiked / SEQUENCE / "spike").iterdir())
    whole = np.concatenate([read_spikes(path, 48, 64) for path in paths])
    for number, path in enumerate(paths):
        write_spikes(path, np.roll(whole, -8, axis=0)[88 * number : 88 * (number + 1)])
    assert has_fault(spiked, "the sharp frames lie at step 3[123].* expected 40.0 .* shifted")


def pair_faults(blur, sharp):
    """The faults of a frame without neighbours, as one text."""
    check = Consistency()
    check.add(FrameSummary(summarize_image("blur", blur), summarize_image("sharp", sharp)))
    return "".join(check.finish())


def test_at_most_three_frames_are_kept_in_memory():
    check = Consistency()
    kept = []
    for picture in slow_film(0, 6):
        pictures = [summarize_image(kind, picture) for kind in ("blur", "sharp")]
        kept.append(weakref.ref(pictures[0].coarse))
        check.add(FrameSummary(*pictures))
    del pictures
    assert [picture() is not None for picture in kept] == [False] * 3 + [True] * 3


@pytest.mark.parametrize(("sigma", "refused"), [(0.35, False), (0.4, True)])
def test_a_little_more_detail_is_no_exchange(sigma, refused):
    """A sharp frame may be out of focus; a little less than the blurry one is its sign."""
    picture = slow_film(0, 1)[0]
    soft = cv2.GaussianBlur(picture, (0, 0), sigma)
    assert ("fine detail" in pair_faults(picture, soft)) == refused


def test_a_real_blurry_frame_belongs_to_its_sharp_frame_alone(shared):
    """A blurry GoPro frame belongs to its sharp frame, the frames after it do not."""
    folder = shared / "samples/gopro_test/GOPR0384_11_00"
    sharp = read_rgb(folder / "sharp/000001.png")
    blurry = [read_rgb(path) for path in sorted((folder / "blur").glob("*.png"))]
    assert pair_faults(blurry[0], sharp) == ""
    assert "fine detail" in pair_faults(sharp, blurry[0])
    for blur in blurry[1:]:
        assert "does not show the scene" in pair_faults(blur, sharp)
    other = read_rgb(shared / "samples/spk_gopro/000226.png")
    assert "does not show the scene" in pair_faults(blurry[0], other)


@pytest.mark.parametrize(
    ("name", "size", "parts"),
    [("spk_gopro/000226.dat", (360, 640), 3), ("sreds/200_part1_key_id151.dat", (250, 400), 5)],
)
def test_the_direction_of_time_is_found_in_real_spikes(shared, tmp_path, name, size, parts):
    """A real recording divided into exposures; its blurry frames are the means of its spikes."""
    spikes = read_spikes(shared / "samples" / name, *size)
    steps = len(spikes) // parts // 8 * 8
    for number in range(parts):
        exposure = spikes[number * steps : (number + 1) * steps]
        middle = exposure[steps // 2 - 10 : steps // 2 + 2]
        for kind, picture in (("blur", exposure), ("sharp", middle)):
            gray = np.clip(picture.mean(axis=0) * 510, 0, 255).astype(np.uint8)
            write_png(tmp_path / SEQUENCE / kind / f"{number}.png", np.dstack([gray] * 3))
        path = tmp_path / SEQUENCE / "spike" / f"{number}.dat"
        write_spikes(path, exposure)
    (tmp_path / SEQUENCE / "config.yaml").write_text(f"spike_h: {size[0]}\nspike_w: {size[1]}\n")
    assert not has_fault(tmp_path, "backwards|more like|does not show")
    write_spikes(path, exposure[::-1])
    assert has_fault(tmp_path, rf"{path.name}: its beginning .* time runs backwards")
