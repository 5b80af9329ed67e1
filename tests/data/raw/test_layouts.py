"""Recognition of raw layouts: files of sequences, sensor sizes, advice for unusable ones."""

from __future__ import annotations

import re
import shutil
import unicodedata

import pytest

from tests.data.prepared import check
from tests.data.raw.published import PUBLISHED
from tests.data.scenes import film
from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.layouts.files import sensor_size
from vrtspike.data.raw.layouts.layout import layout_hint
from vrtspike.data.raw.layouts.registry import LAYOUTS, find_sequence, frame_faults
from vrtspike.data.raw.survey import survey
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.system.errors import DataError

SPLIT, NAME = "train", "GOPR0001_11_00"


@pytest.mark.parametrize("place", [f"{SPLIT}/{NAME}/spike", f"{SPLIT}/{NAME}", SPLIT, "."])
def test_a_file_beside_or_above_the_spikes_may_give_the_sensor_size(dataset, place):
    assert find_sequence(RawFolder(dataset), f"{SPLIT}/{NAME}").sensor_file is None
    (dataset / place / "config.yaml").write_text("spike_h: 250\nspike_w: 400\n")
    if place != f"{SPLIT}/{NAME}/spike":  # that of something else
        (dataset / f"{SPLIT}/{NAME}/spike/config.yaml").write_text("#spike_h\nspike_fps: 2\n")
    file = find_sequence(RawFolder(dataset), f"{SPLIT}/{NAME}").sensor_file
    assert sensor_size(dataset / file) == (250, 400)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("# sensor\nspike_h: 250 # rows\nspike_w: '400'\nfps: 20000\n", (250, 400)),
        ("\ufeffspike_h: 48\r\nspike_w: 64\r\n", (48, 64)),
        ("# spike_h\nmax_spike_h: 1000\n", None),
        ("spike_h: 250\n", "once each"),
        ("spike_h: 1\nspike_w: 2\nspike_h: 3\n", "once each"),
        ("sensor: {spike_h: 250, spike_w: 400}\n", "once each"),
        ("spike_h: 250.0\nspike_w: 400.0\n", "once each"),
        ("spike_h: 0\nspike_w: 400\n", "once each"),
    ],
)
def test_the_sensor_size_in_a_file(tmp_path, text, size):
    path = tmp_path / "config.yaml"
    path.write_text(text, newline="")
    if isinstance(size, str):
        with pytest.raises(DataError, match=size):
            sensor_size(path)
    else:
        assert sensor_size(path) == size


@pytest.mark.parametrize(
    ("layout", "blurry"),
    [("spk_gopro", "train/a/blur"), ("kair", "train_GT_blurred"), ("nafnet", "train/input")],
)
def test_blurry_frames_of_linear_light_lie_in_folders_of_their_own(tmp_path, layout, blurry):
    PUBLISHED[layout].write(tmp_path)
    (tmp_path / blurry).rename(tmp_path / f"{blurry}_gamma")
    with pytest.raises(DataError, match="no blurry frames"):
        survey(RawFolder(tmp_path), ["train"])
    assert len(survey(RawFolder(tmp_path, "blur_gamma"), ["train"])["sequences"]) == 1
    manifest = check(tmp_path, "train/a", "blur_gamma")
    assert manifest["faults"] == []
    assert all("gamma" in frame["blur"] for frame in manifest["frames"])


@pytest.mark.parametrize("name", ["spk_gopro", "kair", "nafnet"])
def test_what_cannot_be_used_gets_the_advice_of_its_layout(tmp_path, name):
    PUBLISHED[name].write(tmp_path)
    places = LAYOUTS[name].sequence_paths("train", "a", "blur")
    for begin in (places.blur, places.sharp, places.spike):
        assert len(list(tmp_path.glob(f"{begin}*"))) == 2
    for path in tmp_path.rglob("*.png"):
        path.unlink()
    with pytest.raises(DataError) as caught:
        survey(RawFolder(tmp_path), ["train", "test"])
    assert str(caught.value).count(f"\n{layout_hint(LAYOUTS[name], 'blur')}") == 1


def test_sequences_whose_names_begin_alike(tmp_path):
    PUBLISHED["nafnet"].write(tmp_path)
    for path in list((tmp_path / "train").rglob("a-000048.*")):
        path.rename(path.with_name(f"a-b-000048{path.suffix}"))
    assert LAYOUTS["nafnet"].sequence_names(tmp_path, "train", None)[0] == ["a", "a-b"]
    assert list(find_sequence(RawFolder(tmp_path), "train/a").blur) == ["000047"]


def test_a_table_beside_the_folders_of_sequences_belongs_to_none(tmp_path):
    PUBLISHED["kair"].write(tmp_path)
    (tmp_path / "train_GT_blurred/exposures.csv").touch()
    assert find_sequence(RawFolder(tmp_path), "train/a").exposures is None
    (tmp_path / "train_GT/a/exposures.csv").touch()
    assert find_sequence(RawFolder(tmp_path), "train/a").exposures == "train_GT/a/exposures.csv"


def test_only_a_nested_sequence_is_two_folders(dataset):
    (dataset / SPLIT / NAME).rename(dataset / SPLIT / "walk__1")
    report = survey(RawFolder(dataset), ["train", "test"])
    assert report["excluded"] == {}
    assert len(find_sequence(RawFolder(dataset), f"{SPLIT}/walk__1").blur) == 3


def test_a_split_may_lie_in_a_folder_of_its_own(tmp_path):
    for folder in ("train_GT_blurred", "train_GT"):
        (tmp_path / "sub" / folder / "a").mkdir(parents=True)
        (tmp_path / "sub" / folder / "a/000001.png").touch()
    files = find_sequence(RawFolder(tmp_path, layout="kair"), "sub/train/a")
    assert (files.split, files.name) == ("sub/train", "a")
    assert [*files.blur.values()] == ["sub/train_GT_blurred/a/000001.png"]


def test_a_layout_that_is_asked_for_is_not_guessed(dataset):
    (dataset / "train_GT").mkdir()
    match = r"split train fit the layouts kair and spk_gopro; set DATA\.LAYOUT"
    with pytest.raises(DataError, match=match):
        survey(RawFolder(dataset), ["train"])
    (dataset / SPLIT / NAME / "exposures.csv").touch()  # does not make a stream of it
    with pytest.raises(DataError, match=match):
        survey(RawFolder(dataset), ["train"])
    assert survey(RawFolder(dataset, layout="spk_gopro"), ["train"])["layout"] == "spk_gopro"


def test_steps_of_another_size_are_one_fault(dataset):
    for path in list((dataset / SPLIT / NAME).rglob("0*.*")):
        path.rename(path.with_stem(f"{10 * int(path.stem):06d}"))
    (fault,) = frame_faults(find_sequence(RawFolder(dataset), f"{SPLIT}/{NAME}"))
    assert "rise by 10 from each frame to the next, expected 1 in the layout spk_gopro" in fault
    assert "number them 1, 2, 3" in fault


def frames_of(root, **parts):
    for part, numbers in parts.items():
        suffix = "dat" if part == "spike" else "png"
        (root / SPLIT / NAME / part).mkdir(parents=True)
        for number in numbers:
            (root / SPLIT / NAME / part / f"{number:06d}.{suffix}").touch()
    return frame_faults(find_sequence(RawFolder(root), f"{SPLIT}/{NAME}"))


def test_many_faults_of_one_kind_are_one_line(tmp_path):
    sharp = [number for number in range(60) if number not in (7, 27, 37, 47)]
    lacking, jumps = frames_of(tmp_path, blur=range(60), sharp=sharp)
    assert lacking == (
        "frames 000007, 000027, 000037, and 1 more are in blur but have no partner in sharp"
    )
    assert jumps.startswith("frame numbers jump in 4 places, the first from 000006 to 000008: ")


def test_a_gap_in_source_frames_of_x4k_is_found(tmp_path):
    for part in ("blurry_33", "fullRGB"):
        folder = tmp_path / f"train_{part}/002/occ008"
        folder.mkdir(parents=True)
        for name in ("0001", "0001_002", "0002_001", "0003_000", "0004_002"):  # 4, 7, 10, 13, 19
            (folder / f"{name}.png").touch()
    (fault,) = frame_faults(find_sequence(RawFolder(tmp_path), "train/002__occ008"))
    assert fault.startswith("frame numbers jump from 0003_000 to 0004_002: frames are missing")


@pytest.mark.parametrize(
    ("layout", "cure"),
    [
        ("spk_gopro", r"whole sequence, rename it to train/a/spike/spike\.dat, which is divided"),
        ("nafnet", r"whole sequence, rename it to train/spike/a\.dat, which is divided"),
        ("s-sdm", r"only spike file of 2 frames; put there a spike file for each frame"),
    ],
)
def test_one_spike_file_for_all_frames_is_told_its_name(tmp_path, layout, cure):
    PUBLISHED[layout].write(tmp_path)
    files = find_sequence(RawFolder(tmp_path), "train/a")
    first, second = (tmp_path / path for path in files.spikes.values())
    whole = first.read_bytes() + second.read_bytes()
    second.unlink()
    first.write_bytes(whole)
    (fault,) = frame_faults(find_sequence(RawFolder(tmp_path), "train/a"))
    match = re.search(cure, fault)
    assert match
    if "rename" in cure:
        first.rename(tmp_path / re.search(r"rename it to (\S+),", fault)[1])
        assert check(tmp_path, "train/a")["faults"] == []


def test_names_in_two_forms_of_unicode_are_one_frame(dataset):
    for path in list((dataset / SPLIT / NAME).rglob("0*.*")):
        form = "NFD" if path.parent.name == "sharp" else "NFC"
        path.rename(path.with_stem(unicodedata.normalize(form, f"\u00e9{path.stem}")))
    assert check(dataset, f"{SPLIT}/{NAME}")["faults"] == []
    folder = dataset / SPLIT / NAME / "sharp"
    shutil.copy(folder / "e\u0301000002.png", folder / "\u00e9000002.png")
    (fault,) = check(dataset, f"{SPLIT}/{NAME}")["faults"]
    assert "two files for frame" in fault
    assert "look alike: an accent is part of its letter in one (Unicode NFC)" in fault


@pytest.mark.parametrize("name", ["{}", "frame_{}"])
def test_frames_follow_each_other_by_their_numbers(tmp_path, name):
    folder = tmp_path / SPLIT / NAME
    write_sequence(folder, film(4, 31), frames_per_exposure=3)
    for path in list(folder.rglob("*.*")):
        path.rename(path.with_stem(name.format(int(path.stem))))
    manifest = check(tmp_path, f"{SPLIT}/{NAME}")
    assert manifest["faults"] == []
    assert [f["name"] for f in manifest["frames"]] == [name.format(n) for n in range(1, 11)]
    whole = b"".join(
        (folder / "spike" / f"{name.format(n)}.dat").read_bytes() for n in range(1, 11)
    )
    shutil.rmtree(folder / "spike")
    (folder / "spike.dat").write_bytes(whole)
    manifest = check(tmp_path, f"{SPLIT}/{NAME}")
    assert [f["spikes"]["start"] for f in manifest["frames"]] == list(range(0, 240, 24))


def test_files_that_claim_the_same_frame_are_a_fault(dataset):
    folder = dataset / SPLIT / NAME
    shutil.copy(folder / "blur" / "000002.png", folder / "blur" / "2.png")
    for name in ("spike.dat", "spike.npz"):
        (folder / name).touch()
    place = f"{SPLIT}/{NAME}"
    assert find_sequence(RawFolder(dataset), f"{SPLIT}/{NAME}").faults == (
        f"two files for frame 000002: {place}/blur/000002.png and {place}/blur/2.png",
        f"several spike files for the whole sequence: {place}/spike.dat, {place}/spike.npz",
    )


@pytest.mark.parametrize("part", ["blur", "sharp", "spike"])
@pytest.mark.parametrize("change", ["suffix", "zeros"])
def test_capital_suffixes_and_zeros_make_no_other_frame(dataset, part, change):
    for path in list((dataset / SPLIT / NAME / part).iterdir())[1:]:
        capital = path.with_suffix(path.suffix.upper())
        path.rename(capital if change == "suffix" else path.with_stem(path.stem.lstrip("0")))
    files = find_sequence(RawFolder(dataset), f"{SPLIT}/{NAME}")
    assert (files.faults, len(files.blur)) == ((), 3)
    assert files.blur.keys() == files.sharp.keys() == files.spikes.keys()


def test_a_capital_suffix_of_the_spikes_of_a_whole_sequence(dataset):
    folder = dataset / SPLIT / NAME
    shutil.rmtree(folder / "spike")
    (folder / "spike.NPZ").touch()
    assert (
        find_sequence(RawFolder(dataset), f"{SPLIT}/{NAME}").stream == f"{SPLIT}/{NAME}/spike.NPZ"
    )


@pytest.mark.parametrize(
    ("part", "suffix", "expected"),
    [("spike", ".npy", ".dat or .npz with an array spk"), ("blur", ".png.part", ".png or .jpg")],
)
def test_numbered_files_that_nothing_reads_are_named(dataset, part, suffix, expected):
    folder = dataset / SPLIT / NAME / part
    (folder / "notes2.txt").write_text("stray")
    (folder / f"000001{suffix}.txt").write_text("about a frame")
    (folder / "000009").mkdir()
    assert find_sequence(RawFolder(dataset), f"{SPLIT}/{NAME}").faults == ()
    (folder / f"000001{suffix}.txt").unlink()
    for path in folder.glob("0*"):
        path.rename(folder / f"{path.stem}{suffix}")
    (fault,) = find_sequence(RawFolder(dataset), f"{SPLIT}/{NAME}").faults
    assert f"{SPLIT}/{NAME}/{part} holds 000001{suffix} and 2 more, not read" in fault
    assert expected in fault
