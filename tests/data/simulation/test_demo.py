"""Generated data of the demo: blur, spikes, seed and repair."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.prepared import check
from vrtspike.data.simulation.demo import SCENES, make_demo_data
from vrtspike.io.images import read_rgb
from vrtspike.system.errors import DataError


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


def test_the_seed_decides_and_running_again_mends_what_changed(demo, tmp_path):
    def contents(root):
        return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    before = contents(demo)
    broken = demo / "train" / SCENES[0].name / "blur" / "000002.png"
    broken.write_bytes(b"cut")
    (broken.parent / "000009.png").write_bytes(b"of another run")
    make_demo_data(demo, exposures=3)
    assert contents(demo) == before
    make_demo_data(tmp_path, seed=1, exposures=3)
    other = contents(tmp_path)
    assert before.keys() == other.keys()
    assert all(before[path] != other[path] for path in before)


@pytest.mark.parametrize(
    ("options", "fault"),
    [({"height": 127}, "127 x 192"), ({"exposures": 0}, "1 frames do not fill one exposure")],
)
def test_what_gives_no_exposure_is_refused(tmp_path, options, fault):
    with pytest.raises(DataError, match=fault):
        make_demo_data(tmp_path, **options)
