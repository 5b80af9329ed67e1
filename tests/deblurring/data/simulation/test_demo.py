from __future__ import annotations

import numpy as np
import pytest

from tests.deblurring.data.prepared import check
from vrtspike.deblurring.data.simulation.demo import SCENES, make_demo_data
from vrtspike.errors import DataError
from vrtspike.io.images import read_rgb


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    root = tmp_path_factory.mktemp("demo")
    make_demo_data(root, exposures=3)
    return root


def test_blur_is_strong_and_spikes_fit_the_sharp_frames(demo):
    centers = []
    for scene in SCENES:
        manifest = check(demo, f"{scene.split}/{scene.name}")
        assert (manifest["faults"], manifest["rgb_size"]) == ([], [128, 192])
        assert [frame["name"] for frame in manifest["frames"]] == ["000001", "000002", "000003"]
        psnr = []
        for frame in manifest["frames"]:
            blur, sharp = (read_rgb(demo / frame[kind]).astype(float) for kind in ("blur", "sharp"))
            psnr.append(10 * np.log10(255**2 / np.square(blur - sharp).mean()))
            assert frame["spikes"]["steps"] == 88
            assert frame["spikes"]["correlation"] > 0.85
            centers.append(frame["spikes"]["center"])
        assert 20 < np.mean(psnr) < 30
    centers = [center for center in centers if center is not None]
    assert len(centers) > 20
    assert np.median(centers) == pytest.approx(40, abs=0.7)
    assert np.abs(np.array(centers) - 40).max() < 5


def test_running_again_touches_nothing_and_mends_what_changed(demo):
    def dates():
        return {p: p.stat().st_mtime_ns for p in demo.rglob("*") if p.is_file()}

    before = dates()
    broken = demo / "train" / SCENES[0].name / "blur" / "000002.png"
    contents = broken.read_bytes()
    broken.write_bytes(b"cut")
    (broken.parent / "000009.png").write_bytes(contents)
    make_demo_data(demo, exposures=3)
    after = dates()
    assert broken.read_bytes() == contents
    assert set(after) == set(before)
    assert {p for p in before if before[p] != after[p]} == {broken}


def test_another_seed_gives_another_film(demo, tmp_path):
    make_demo_data(tmp_path, seed=1, exposures=1, height=64, width=96)
    make_demo_data(tmp_path / "again", seed=1, exposures=1, height=64, width=96)
    name = f"train/{SCENES[0].name}/spike/000001.dat"
    assert (tmp_path / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    make_demo_data(tmp_path / "other", seed=2, exposures=1, height=64, width=96)
    assert (tmp_path / name).read_bytes() != (tmp_path / "other" / name).read_bytes()


def test_odd_sizes_are_refused(tmp_path):
    with pytest.raises(DataError, match="127 x 192"):
        make_demo_data(tmp_path, height=127)
    assert list(tmp_path.iterdir()) == []
