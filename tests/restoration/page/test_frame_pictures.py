"""Pictures of the page of restored frames."""

from __future__ import annotations

import base64
from dataclasses import replace

import cv2
import numpy as np
import pytest

from tests.restoration.folder_runs import NAMES, pictures
from vrtspike.io.images import read_rgb, write_png
from vrtspike.reporting.error_maps import colored, error_map
from vrtspike.restoration.folder.opened_request import RestoredClip, open_request
from vrtspike.restoration.page.frame_pictures import (
    TOPS,
    choose_frames,
    frame_pictures,
    write_page_pictures,
)


@pytest.fixture(scope="module")
def clip(whole, model) -> RestoredClip:
    job, _ = whole
    opened = open_request(model.run, job)
    files = [job.output / f"restored/{name}.png" for name in NAMES]
    return RestoredClip(opened.source, opened.sharp, files, with_spikes=True)


def test_pictures_of_a_frame_and_two_models(clip, small_run, tmp_path):
    black = np.zeros((48, 64, 3), np.uint8)
    for name in NAMES:
        write_png(tmp_path / f"{name}.png", black)
    other = replace(clip, files=[tmp_path / f"{name}.png" for name in NAMES])
    shown = frame_pictures([clip, other], 2)
    of_model = ("restored", "difference", "residual", "error")
    assert set(shown) == {
        *("blurry", "sharp", "spikes"),
        *(f"{kind}-{model}" for kind in of_model for model in (0, 1)),
    }
    blur, sharp = (pictures(small_run.raw / "test/b" / kind)[2] for kind in ("blur", "sharp"))
    restored = read_rgb(clip.files[2])
    for name, picture in {"blurry": blur, "sharp": sharp, "restored-0": restored}.items():
        np.testing.assert_array_equal(shown[name], picture)
    np.testing.assert_array_equal(shown["error-1"], error_map(black, sharp))
    brightness = blur.astype(np.float32).mean(axis=-1)
    np.testing.assert_array_equal(shown["difference-1"], colored(brightness, TOPS["difference"]))
    same = replace(clip, files=sorted((small_run.raw / "test/b/blur").iterdir()))
    unchanged = frame_pictures([same], 2)
    assert not unchanged["difference-0"][..., 0].any()
    # Black, blurred again, is farther from the blurry frame than this frame is.
    assert shown["residual-1"].mean() > unchanged["residual-0"].mean() + 20
    without = frame_pictures([replace(clip, sharp=None, with_spikes=False)], 2)
    assert set(without) == {"blurry", "spikes", "restored-0", "difference-0"}


def test_files_replace_those_of_an_earlier_page(clip, tmp_path):
    (tmp_path / "page").mkdir()
    (tmp_path / "page/000009_blurry.webp").touch()
    (tmp_path / "page/mine.txt").touch()
    facts, pictures = write_page_pictures([clip], [0, 3], 10**6, tmp_path, embedded_bytes=0)
    form = "WebP of quality 80, at most 1280 pixels wide or high"
    assert facts == {"form": form, "left_out": 3, "folder": "page"}
    assert list(pictures) == [0, 3]
    (files,) = pictures[3]
    assert files["restored"] == "000004_restored-0.webp"
    assert set(files) == {
        *("blurry", "sharp", "spikes", "restored", "difference", "residual", "error", "thumbnail"),
    }
    names = {name for (kinds,) in pictures.values() for name in kinds.values()}
    assert {path.name for path in (tmp_path / "page").iterdir()} == {*names, "mine.txt"}
    shown = cv2.imread(str(tmp_path / "page" / files["restored"]))[..., ::-1]
    assert np.abs(shown.astype(float) - read_rgb(clip.files[3])).mean() < 8


def test_pictures_stay_below_their_limit(clip, tmp_path):
    def size() -> int:
        return sum(path.stat().st_size for path in (tmp_path / "page").iterdir())

    frames = range(5)
    write_page_pictures([clip], frames, 10**6, tmp_path, embedded_bytes=0)
    whole = size()
    facts, pictures = write_page_pictures([clip], frames, whole - 1, tmp_path, embedded_bytes=0)
    assert size() < whole
    assert (facts["left_out"], list(pictures)) == (0, list(frames))
    facts, pictures = write_page_pictures([clip], frames, whole // 5, tmp_path, embedded_bytes=0)
    assert size() <= whole // 5
    assert 0 < len(pictures) == 5 - facts["left_out"] < 5


def test_small_pictures_are_returned_and_files_of_an_earlier_page_removed(clip, tmp_path):
    facts, files = write_page_pictures([clip, clip], [0, 3], 10**6, tmp_path, embedded_bytes=0)
    kinds = [kind for models in files.values() for model in models for kind in model.items()]
    contents = {name: (tmp_path / "page" / name).read_bytes() for _, name in kinds}
    # Pictures that both models share are in the page twice.
    size = sum(len(contents[name]) for _, name in kinds)
    assert size > sum(map(len, contents.values()))
    embedded_facts, shown = write_page_pictures(
        [clip, clip], [0, 3], 10**6, tmp_path, embedded_bytes=size
    )
    assert embedded_facts == facts | {"folder": None}
    assert list(tmp_path.iterdir()) == []
    for number, models in files.items():
        for of_files, embedded in zip(models, shown[number], strict=True):
            decoded = {kind: base64.b64decode(text) for kind, text in embedded.items()}
            assert decoded == {kind: contents[name] for kind, name in of_files.items()}
    for budget, limit in ((10**6, size - 1), (size, size)):  # base64 exceeds the size, too
        facts, _ = write_page_pictures([clip, clip], [0, 3], budget, tmp_path, embedded_bytes=limit)
        assert facts["folder"] == "page"


def test_frames_in_doubt_are_chosen_before_others():
    chosen = choose_frames(100, [7, 8, 50], limit=10)
    assert len(chosen) == len(set(chosen)) == 10
    assert chosen == sorted(chosen)
    assert {0, 7, 8, 50, 99} <= set(chosen)
    assert choose_frames(100, range(100), limit=3) == [0, 49, 99]


def test_frames_in_doubt_are_read_as_often_in_a_long_clip():
    class Doubtful(list):
        reads = 0

        def __iter__(self):
            type(self).reads += 1
            return super().__iter__()

    doubtful = Doubtful([7, 8])
    choose_frames(100, doubtful, limit=10)
    reads = Doubtful.reads
    choose_frames(1000, doubtful, limit=10)
    assert Doubtful.reads == 2 * reads
