from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.config.loading import load_preset
from vrtspike.deblurring.costs import clip_cost, gpu_ms, table, training_cost

PRESETS = Path(__file__).resolve().parents[2] / "config/presets"
GOPRO = {"sequences": 22, "frames": 2103}


def preset(name, *overrides):
    return load_preset(PRESETS / f"{name}.yaml", overrides)


def test_a_clip_of_another_size_costs_in_proportion():
    row = table()["presets"]["baseline"]
    whole = clip_cost("baseline", preset("baseline"))
    assert (whole.peak_gib, whole.kept_gib, whole.tflop) == (
        row["peak_gib"], row["kept_gib"], row["tflop"]
    )  # fmt: skip
    assert dict(whole.ms) == row["ms"]
    half = clip_cost("mine", preset("baseline", "DATA.CROP_SIZE=128", "DATA.CLIP_LEN=10"))
    assert half.tflop == pytest.approx(row["tflop"] / 2)
    assert half.kept_gib == pytest.approx(row["kept_gib"] / 2)
    assert half.ms["A100"] == pytest.approx(row["ms"]["A100"] / 2)
    # Weights and moments do not shrink with the clip.
    assert half.peak_gib - half.kept_gib == pytest.approx(row["peak_gib"] - row["kept_gib"])
    assert half.parameters == row["parameters"]


def test_a_model_is_known_by_its_settings_whatever_its_weights():
    begun = preset("baseline", "MODEL.VRT.PRETRAINED=a.pth", "MODEL.VRT.SPYNET=b.pth")
    assert clip_cost("mine", begun) == clip_cost("baseline", preset("baseline"))
    assert clip_cost("baseline", preset("baseline", "MODEL.WINDOW_SIZE=4")) is None
    assert training_cost("mine", preset("demo", "MODEL.VRT.NUM_HEADS=4"), 1, 9, 1) is None


def test_a_gpu_between_those_of_the_table():
    cost = clip_cost("baseline", preset("baseline"))
    for name, gpu in table()["gpus"].items():
        assert gpu_ms(cost, gpu["bandwidth"]) == pytest.approx(cost.ms[name])
    between = gpu_ms(cost, 1.5e12)
    assert cost.ms["A100"] < between < cost.ms["4090"]
    assert gpu_ms(cost, 9.6e12) == pytest.approx(cost.ms["H200"] / 2)
    assert gpu_ms(cost, 0.384e12) == pytest.approx(2 * cost.ms["A6000"])


def test_steps_and_clips_of_gopro_are_those_of_the_page():
    # The table of docs/training.md.
    baseline = training_cost("baseline", preset("baseline"), gpus=1, **GOPRO)
    assert (baseline.steps, baseline.clips) == (13_433, 80_598)
    reproduce = training_cost("reproduce", preset("reproduce"), gpus=1, **GOPRO)
    assert (reproduce.steps, reproduce.clips) == (100_000, 800_000)
    # Three GPUs: each sees a third, in a third of the steps.
    three = training_cost("baseline", preset("baseline"), gpus=3, **GOPRO)
    assert three.steps == 40 * (2015 // 3) // 6
    assert three.clips == pytest.approx(80_598 / 3, rel=2e-3)


def test_phases_cost_their_mean_and_need_memory_for_the_largest():
    compact = preset("compact")
    found = training_cost("compact", compact, gpus=1, **GOPRO)
    row = table()["presets"]["compact"]
    # Half of the epochs on a quarter of the area.
    assert found.mean.tflop == pytest.approx(row["tflop"] * (1 + 0.25) / 2)
    assert found.gpu_gib == pytest.approx(row["peak_gib"] + row["kept_gib"])


def test_checkpoints_hold_weights_and_two_moments():
    found = training_cost("baseline", preset("baseline"), gpus=1, **GOPRO)
    each = 3 * 4 * table()["presets"]["baseline"]["parameters"] / 2**30
    assert found.checkpoint_gib(3) == pytest.approx(4 * each)
