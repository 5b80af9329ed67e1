"""Each protocol's metrics, computed again from the files and the model without its code."""

from __future__ import annotations

import html
import json
from itertools import product
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import torch
from skimage import metrics as reference
from torch import nn
from torchvision.models import alexnet

from tests.deblurring.reference_metrics import luma_of, similarity, volume_similarity
from tests.evaluation.evaluations import CPU, FRAMES, evaluate, raw_frames
from tests.helpers.frame_source import source_of
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.store.reading import Store
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.evaluation import EvaluationSettings as EvaluationSettings
from vrtspike.deblurring_settings.evaluation import ProtocolName
from vrtspike.evaluation.means import overall_means, sequence_means
from vrtspike.evaluation.protocols import PROTOCOLS
from vrtspike.io.backbone_weights import Net
from vrtspike.io.images import read_rgb
from vrtspike.losses.lpips import build_lpips
from vrtspike.metrics.registry import METRICS
from vrtspike.restoration.inference.tiling import Tiling
from vrtspike.restoration.inputs.clip_source import StoreClipSource
from vrtspike.restoration.tiled_inference import load_model, restore_frames, torch_tile_model


def random_lpips(weights: None, net: Net) -> nn.Module:
    """LPIPS with a random backbone."""
    torch.manual_seed(0)
    return build_lpips(alexnet(weights=None).state_dict(), net)


def similarity_by_hand(name: str, a: np.ndarray, b: np.ndarray) -> float:
    if name in ("vrt", "basicsr"):
        return volume_similarity(a, b)
    if name == "spkdeblurnet":
        return similarity(luma_of(a), luma_of(b))
    a, b = (image / 127.5 - 1 for image in (a, b))
    return float(reference.structural_similarity(a, b, data_range=2, channel_axis=-1))


def values_by_hand(small_run, sequence: str, tiling: Tiling) -> np.ndarray:
    """The model's result, (5, 3, 48, 64), not rounded."""
    dataset = load_dataset(small_run.dataset)
    (entry,) = (entry for entry in dataset.split("test") if entry.name == sequence)
    model = load_model(small_run.train / "weights.safetensors", small_run.settings, CPU)
    tile_model = torch_tile_model(model, dataset.statistics, CPU)
    source = StoreClipSource(Store(entry.store))
    return np.stack(list(restore_frames(tile_model, source, tiling, bits=None)))


def test_every_protocol_can_be_chosen():
    assert set(get_args(ProtocolName)) == PROTOCOLS.keys()


@pytest.fixture(scope="module")
def evaluated(small_run, tmp_path_factory):
    """Protocols of the blurry frames that the data set has, in one pass."""
    output = tmp_path_factory.mktemp("protocols")
    summary = evaluate(small_run, output, "TEST.PROTOCOL=[vrt, own, ssdm, basicsr]")
    written = json.loads((output / "summary.json").read_text())
    assert written | summary == written
    return output, summary


@pytest.mark.parametrize("name", ["vrt", "ssdm", "basicsr"])
def test_metrics_are_those_of_the_definition(small_run, evaluated, name):
    output, summary = evaluated
    frames = pd.read_csv(output / "frames.csv", dtype={"frame": str})
    frames = frames[frames["protocol"] == name]
    means = summary["metrics"] if name == "vrt" else summary["other_protocols"][name]["metrics"]
    # Frames of 48 x 64 are smaller than tiles of 192; 5 frames fit into 18.
    tiling = Tiling(0, 0, 0, 0) if name == "vrt" else Tiling(0, 0, 3, 1)
    for sequence in "bc":
        rows = frames[frames["sequence"] == sequence]
        assert rows["frame"].tolist() == FRAMES
        sharp = raw_frames(small_run, sequence, "sharp")
        values = values_by_hand(small_run, sequence, tiling).transpose(0, 2, 3, 1)
        values = (255 * values).clip(0, 255)
        if name in ("vrt", "basicsr"):
            values = np.rint(values).astype(np.uint8)
        for number in (0, 4):
            row = rows.iloc[number]
            error = np.mean((values[number].astype(float) - sharp[number]) ** 2)
            assert row["psnr"] == pytest.approx(10 * np.log10(255**2 / error), abs=2e-3)
            similar = similarity_by_hand(name, values[number], sharp[number])
            assert row["ssim"] == pytest.approx(similar, abs=1e-5)
    for metric in ("psnr", "ssim"):
        assert means[metric]["restored"] == pytest.approx(frames[metric].mean(), abs=1e-5)
        assert means[metric]["blurry"] == pytest.approx(frames[f"{metric}_blur"].mean(), abs=1e-5)


def test_a_summary_names_its_protocol_and_unknown_details(evaluated):
    output, summary = evaluated
    assert (summary["protocol"], summary["mean_over"]) == ("vrt", "frames")
    means = {name: entry["mean_over"] for name, entry in summary["other_protocols"].items()}
    assert means == {"own": "sequences", "ssdm": "frames", "basicsr": "frames"}
    assert summary["tile"] == {"SIZE": 192, "OVERLAP": 20, "FRAMES": 18, "FRAMES_OVERLAP": 2}
    assert summary["other_protocols"]["own"]["tile"]["SIZE"] == 64
    assert summary["other_protocols"]["basicsr"]["tile"]["SIZE"] == 0
    assert summary["protocol_unknown"] == ""
    assert "97 interpolated" in summary["other_protocols"]["ssdm"]["protocol_unknown"]
    page = html.unescape((output / "metrics.html").read_text())
    for words in ("Protocol vrt", "Protocol ssdm", "MATLAB", "do not compare"):
        assert words in page


def test_the_main_metrics_are_those_of_the_protocol_alone(small_run, evaluated, tmp_path):
    """Other protocols do not change the metrics of the first."""
    alone = evaluate(small_run, tmp_path)
    assert alone["protocol"] == "own"
    beside = evaluated[1]["other_protocols"]["own"]["metrics"]
    assert {name: pytest.approx(values) for name, values in beside.items()} == alone["metrics"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("own", [0, 0, 64, 255]),
        ("vrt", [0, 0, 64, 255]),
        ("basicsr", [0, 0, 64, 255]),
        ("spkdeblurnet", [-25.5, 0.0, 63.75, 280.5]),
        ("ssdm", [0.0, 0.0, 63.75, 255.0]),
    ],
)
def test_rounding_and_clipping_follow_the_protocol(name, expected):
    frame = np.float32([-0.1, 0.0, 0.25, 1.1]).reshape(1, 1, 4).repeat(3, 0)
    image = PROTOCOLS[name].image(frame)
    assert image.shape == (1, 4, 3)
    assert image[0, :, 1].tolist() == pytest.approx(expected, abs=1e-4)


def test_ssim_on_y_of_frames_that_are_not_rounded():
    rng = np.random.default_rng(0)
    sharp = rng.integers(0, 256, (20, 24, 3)).astype(np.uint8)
    restored = sharp + rng.normal(0, 5, sharp.shape)
    (psnr, ssim) = PROTOCOLS["spkdeblurnet"].metrics(["psnr", "ssim", "tof", "lpips"])
    expected = similarity_by_hand("spkdeblurnet", restored, sharp)
    assert ssim.load(None, CPU)(restored, sharp) == pytest.approx(expected, abs=1e-9)
    error = np.mean((restored - sharp) ** 2)
    result = psnr.load(None, CPU)(restored, sharp)
    assert result == pytest.approx(10 * np.log10(255**2 / error), abs=1e-9)


def test_metrics_of_basicsr_are_means_over_frames_rounded_to_8_bits():
    """Sequences of one and of three frames, against scikit-image and SSIM window by window."""
    rng = np.random.default_rng(0)
    protocol = PROTOCOLS["basicsr"]
    metrics = protocol.metrics(["psnr", "ssim", "lpips", "tof"])
    score_psnr, score_ssim = (metric.load(None, CPU) for metric in metrics)
    rows = []
    expected = []
    for sequence, noise in (("a", 0.01), ("b", 0.002), ("b", 0.003), ("b", 0.004)):
        sharp = rng.integers(0, 256, (12, 14, 3)).astype(np.uint8)
        restored = sharp / 255 + rng.normal(0, noise, sharp.shape)
        rounded = np.rint(255 * restored.clip(0, 1))
        psnr = reference.peak_signal_noise_ratio(sharp, rounded, data_range=255)
        not_rounded = reference.peak_signal_noise_ratio(sharp, 255 * restored, data_range=255)
        assert abs(psnr - not_rounded) > 0.01
        expected.append((psnr, volume_similarity(rounded, sharp)))
        image = protocol.image(restored.transpose(2, 0, 1).astype(np.float32))
        values = {"psnr": score_psnr(image, sharp), "ssim": score_ssim(image, sharp)}
        assert tuple(values.values()) == pytest.approx(expected[-1], abs=1e-9)
        blurry = {"psnr_blur": 20.0, "ssim_blur": 0.5}
        rows.append({"protocol": "basicsr", "sequence": sequence, "frame": "0"} | values | blurry)
    means = overall_means(sequence_means(pd.DataFrame(rows)), metrics, protocol.mean)
    result = [means[name]["restored"] for name in ("psnr", "ssim")]
    assert result == pytest.approx(np.mean(expected, axis=0), abs=1e-9)
    settings = DeblurringSettings.model_validate({"DATA": {"CLIP_LEN": 5}})
    assert protocol.tiling(settings) == Tiling(0, 0, 5, 1, False)


def test_a_name_is_taken_as_a_list_and_an_unknown_one_refused():
    assert EvaluationSettings(PROTOCOL="vrt").PROTOCOL == ("vrt",)
    assert EvaluationSettings(PROTOCOL=["vrt", "own", "vrt"]).PROTOCOL == ("vrt", "own")
    with pytest.raises(ValueError, match="PROTOCOL"):
        EvaluationSettings(PROTOCOL="rvrt")


def test_tiles_are_cut_and_joined_as_by_the_program_of_vrt():
    """Windows in time count alike; of what tiles share, each leaves its outer 10 pixels."""
    frames, height = 36, 400
    whole, counted = np.zeros((2, frames, height))
    for first, top in product((0, 16, 18), (0, 172, 208)):
        rows = slice(top + (10 if top > 0 else 0), top + 192 - (10 if top < 208 else 0))
        whole[first : first + 18, rows] += first + 100 * top
        counted[first : first + 18, rows] += 1

    numbers = np.zeros((frames, height, 24, 3), np.float32)
    numbers[..., 0] = np.arange(frames)[:, None, None] + 100 * np.arange(height)[:, None]

    def compute(batch):
        """The numbers of a tile's first frame and row, all over it."""
        tiles = np.moveaxis(batch.blur.numpy(), -1, 2)
        return np.zeros_like(tiles) + tiles[:, :1, :1, :1, :1]

    tiling = PROTOCOLS["vrt"].tiling(DeblurringSettings())
    result = np.stack(list(restore_frames(compute, source_of(numbers), tiling, bits=None)))
    assert set(counted.ravel()) == {1, 2, 4}
    np.testing.assert_allclose(result[:, 1, :, 7], whole / counted, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("ssdm", ["psnr", "lpips"]),
        ("vrt", ["psnr"]),
        ("basicsr", ["psnr"]),
        ("own", ["lpips", "psnr"]),
    ],
)
def test_lpips_is_measured_if_a_protocol_has_a_backbone(name, measured):
    metrics = PROTOCOLS[name].metrics(["lpips", "psnr"])
    assert [metric.name for metric in metrics] == measured
    if name == "ssdm":
        assert metrics[1].definition.endswith("not rounded; protocol ssdm; mean over all frames")


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS.keys())
def test_every_metric_of_a_protocol_takes_the_frames_that_it_measures(protocol, monkeypatch):
    monkeypatch.setattr("vrtspike.losses.lpips.load_lpips_network", random_lpips)
    rng = np.random.default_rng(0)
    sharp, other = rng.integers(0, 256, (2, 48, 50, 3)).astype(np.uint8)
    restored = (other / 255).transpose(2, 0, 1).astype(np.float32)
    image = protocol.image(restored)
    metrics = protocol.metrics(list(METRICS))
    assert {"psnr", "ssim"} <= {metric.name for metric in metrics}
    for metric in metrics:
        measure = metric.load(None, CPU)
        pair = ((sharp, image), (other, sharp)) if metric.measures_motion else (image, sharp)
        eight_bit = ((sharp, other), (other, sharp)) if metric.measures_motion else (other, sharp)
        # These restored frames are whole 8-bit values, which rounding does not change.
        assert measure(*pair) == pytest.approx(measure(*eight_bit), rel=1e-5), metric.name


@pytest.mark.shared
def test_a_real_pair_has_a_different_value_under_each_ssim(shared):
    """One blurry GoPro frame against its sharp one: four values, all different.

    Our own values, whose definitions the other tests compute from first principles. The values
    0.8699 (channels), 0.9299 (Y), 0.8910 (volume) and 0.8659 (scikit-image), which are said of a
    pair of real frames, fit no pair of the samples, neither blurry nor sharp ones, whole or scaled.
    """
    folder = shared / "samples" / "gopro_test" / "GOPR0384_11_00"
    pair = [read_rgb(folder / kind / "000001.png") for kind in ("blur", "sharp")]
    expected = {"own": 0.7170, "spkdeblurnet": 0.7467, "vrt": 0.7963, "ssdm": 0.6514}
    expected["basicsr"] = expected["vrt"]
    for name, value in expected.items():
        (ssim,) = PROTOCOLS[name].metrics(["ssim"])
        assert ssim.load(None, CPU)(*pair) == pytest.approx(value, abs=5e-5), name
