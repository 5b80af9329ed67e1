"""Metrics without a sharp frame rank frames as metrics with one do."""

from __future__ import annotations

import shutil

import cv2
import numpy as np
import pytest
from skimage import data

from tests.data.raw.published import CONTEXT, frames, write_picture
from tests.helpers.small_run import recorded_clip
from vrtspike.data.exposure import Exposure, exposure_table
from vrtspike.data.raw.layouts.s_sdm import RSB
from vrtspike.data.raw.spikes import write_spikes
from vrtspike.restoration.checks.no_reference import (
    load_no_reference,
    no_reference_metrics,
    reblur_residual,
)
from vrtspike.system.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """RSB as it is published, with the table that it lacks; and its sharp frames."""
    root = tmp_path_factory.mktemp("rsb")
    table, sharp = {}, []
    # A sensor of 250 x 400 sees a quarter of 1000 x 1600.
    for number, frame in enumerate(frames("train", 56, 30, size=(1000, 1600), scale=4)):
        write_picture(root / f"blur_data/a/{number}.jpg", frame.blur)
        write_spikes(root / f"spike_data/a/{number}.dat", frame.spikes)
        table[str(number)] = Exposure(CONTEXT, CONTEXT + 56, CONTEXT + 30.5)
        sharp.append(frame.sharp)
    (root / "spike_data/a/exposures.csv").write_text(exposure_table(table))
    return root, sharp


def opened(root):
    return recorded_clip(root / "blur_data/a", root / "spike_data/a", bins=8, layout=RSB)


def test_the_true_frame_exceeds_the_blurry_one_and_that_of_another_instant(recorded):
    root, sharp = recorded
    source = opened(root)
    assert (source.spikes.frames[0].exposure.sharp, source.ratio) == (CONTEXT + 30.5, 4)
    blur = source.frames.read(slice(0, 1))[0]
    true, late, same = (
        no_reference_metrics(source.spikes.frames[0], blur, shown)
        for shown in (sharp[0], sharp[1], blur)
    )
    assert true["reblur"] > true["reblur_blur"] + 3 > late["reblur"]
    assert true["agreement"] > true["agreement_blur"] + 0.05
    assert true["agreement"] > true["agreement_outside"] + 0.2
    assert late["agreement_outside"] > late["agreement"]
    assert (same["reblur"], same["agreement"]) == (same["reblur_blur"], same["agreement_blur"])


def test_the_psnr_of_a_frame_blurred_again_is_that_of_its_residual(recorded):
    root, sharp = recorded
    source = opened(root)
    blur = source.frames.read(slice(0, 1))[0]
    residual = reblur_residual(source.spikes.frames[0], blur, sharp[0])
    assert residual.shape == (250, 400)
    psnr = no_reference_metrics(source.spikes.frames[0], blur, sharp[0])["reblur"]
    assert 10 * np.log10(255**2 / np.square(residual).mean()) == pytest.approx(psnr, abs=1e-3)


def test_exposures_are_not_guessed_without_a_table(recorded, tmp_path):
    ignored = shutil.ignore_patterns("exposures.csv")
    root = shutil.copytree(recorded[0], tmp_path / "rsb", ignore=ignored)
    with pytest.raises(DataError, match=r"nothing says when the shutter was open .*rsb"):
        opened(root)


@pytest.mark.parametrize(("steps", "light"), [(4, 1), (36, 0)], ids=["short", "dark"])
def test_short_exposures_and_those_without_a_spike_are_not_judged(tmp_path, steps, light):
    frame = next(frames("train", steps, 2, context=2))
    write_picture(tmp_path / "blur/1.png", frame.blur)
    write_spikes(tmp_path / "spike/1.dat", light * frame.spikes)
    source = recorded_clip(tmp_path / "blur", tmp_path / "spike", bins=2)
    metrics = no_reference_metrics(source.spikes.frames[0], frame.blur, np.zeros_like(frame.blur))
    assert metrics == {}
    assert reblur_residual(source.spikes.frames[0], frame.blur, frame.blur) is None


def test_piqe_separates_a_blurry_frame_from_a_sharp_one():
    pytest.importorskip("pyiqa")
    sharp = data.astronaut()[:256, :256]
    blurry = cv2.GaussianBlur(sharp, (0, 0), 4)
    score = load_no_reference("piqe")
    assert score(np.asarray(blurry)) > score(sharp) + 5
    with pytest.raises(ConfigError, match=r"found nothing, expected one of .*piqe"):
        load_no_reference("nothing")
