from __future__ import annotations

import math

import torch

from vrtspike.deblurring.metrics.lpips import LPIPS
from vrtspike.deblurring.metrics.metric import load_metrics
from vrtspike.deblurring.metrics.psnr import PSNR, psnr
from vrtspike.deblurring.metrics.ssim import SSIM


def test_better_is_a_positive_gain_in_either_direction():
    assert PSNR.gain(31.0, 30.5) == 0.5
    assert LPIPS.gain(0.25, 0.5) == 0.25
    assert LPIPS.gain(0.5, 0.25) == -0.25
    assert (PSNR.best([1, 3, 2]), LPIPS.best([2, 1, 3])) == (3, 1)


def test_figures_are_written_with_their_digits_and_unit():
    assert PSNR.text(31.456) == "31.46 dB"
    assert LPIPS.text(0.123456) == "0.1235"
    assert PSNR.text(math.inf) == "inf dB"


def test_an_explanation_says_where_lower_is_better():
    assert LPIPS.explanation == f"{LPIPS.definition}; lower is better"
    assert SSIM.explanation == SSIM.definition


def test_scores_come_in_the_given_order(tmp_path):
    scores = load_metrics([SSIM, PSNR], tmp_path, torch.device("cpu"))
    assert list(scores) == [SSIM, PSNR]
    assert scores[PSNR] is psnr
