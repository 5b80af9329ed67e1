"""The cost of a training, from the counted steps of the presets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vrtspike.config.loading import load_preset
from vrtspike.deblurring.advice.hardware import USABLE
from vrtspike.deblurring.training_cost import clip_cost, counted_costs, state_bytes, training_cost

REPOSITORY = Path(__file__).resolve().parents[2]
GOPRO = {"sequences": 22, "frames": 2103}


def preset(name, *overrides):
    return load_preset(REPOSITORY / f"config/presets/{name}.yaml", overrides)


def test_a_clip_of_another_size_costs_in_proportion():
    row = counted_costs()["presets"]["baseline"]
    whole = clip_cost("baseline", preset("baseline"))
    assert (whole.clip_gib, whole.tflop, whole.run_tflop) == (
        row["clip_gib"], row["tflop"], row["run_tflop"]
    )  # fmt: skip
    half = clip_cost("mine", preset("baseline", "DATA.CROP_SIZE=128", "DATA.CLIP_LEN=10"))
    assert half.tflop == pytest.approx(row["tflop"] / 2)
    assert half.run_tflop == pytest.approx(row["run_tflop"] / 2)
    assert half.clip_gib == pytest.approx(row["clip_gib"] / 2)
    assert half.moved_tb == pytest.approx(row["moved_tb"] / 2)
    # Weights, moments and operations do not shrink with the clip.
    assert half.operations == row["operations"]
    assert half.state_gib == whole.state_gib
    assert half.parameters == row["parameters"]


def test_a_model_is_known_by_its_settings_whatever_its_weights():
    begun = preset("baseline", "MODEL.VRT.PRETRAINED=a.pth", "MODEL.VRT.SPYNET=b.pth")
    assert clip_cost("mine", begun) == clip_cost("baseline", preset("baseline"))
    assert clip_cost("baseline", preset("baseline", "MODEL.WINDOW_SIZE=4")) is None
    # Windows are VRT's, and the light model has none.
    light = clip_cost("light", preset("light"))
    assert light is not None
    assert clip_cost("light", preset("light", "MODEL.WINDOW_SIZE=4")) == light
    assert training_cost("mine", preset("demo", "MODEL.VRT.NUM_HEADS=4"), 1, 9, 1) is None


@pytest.mark.parametrize(
    ("overrides", "bytes_each"),
    [
        # Weight, gradient and two moments in float32.
        ([], 16),
        (["TRAIN.OPTIM.TYPE=adamw8bit"], 10),
        (["TRAIN.EMA=0.999"], 20),
    ],
)
def test_bytes_of_the_state_for_each_parameter(overrides, bytes_each):
    assert state_bytes(1000, preset("baseline", *overrides)) == 1000 * bytes_each


def test_steps_and_clips_of_gopro():
    baseline = training_cost("baseline", preset("baseline"), gpus=1, **GOPRO)
    assert (baseline.steps, baseline.clips) == (13_433, 80_598)
    reproduce = training_cost("reproduce", preset("reproduce"), gpus=1, **GOPRO)
    assert (reproduce.steps, reproduce.clips) == (100_000, 800_000)
    # Three GPUs: each sees a third, in a third of the steps.
    three = training_cost("baseline", preset("baseline"), gpus=3, **GOPRO)
    assert three.steps == 40 * (2015 // 3) // 6
    assert three.clips == pytest.approx(80_598 / 3, rel=2e-3)


def test_phases_cost_their_mean_and_need_memory_for_the_largest():
    cost = training_cost("compact", preset("compact"), gpus=1, **GOPRO)
    row = counted_costs()["presets"]["compact"]
    # Half of the epochs on a quarter of the area.
    assert cost.run_tflop == pytest.approx(row["run_tflop"] * (1 + 0.25) / 2)
    assert cost.moved_tb == pytest.approx(row["moved_tb"] * (1 + 0.25) / 2)
    state = 16 * row["parameters"] / 2**30
    assert cost.gpu_gib == pytest.approx(state + cost.batch * row["clip_gib"])
    assert cost.batch == preset("compact").TRAIN.BATCH_SIZE


@pytest.mark.parametrize(
    ("name", "clips", "micro_steps"),
    [
        ("light", 30, 1), ("light_spk", 30, 1), ("reproduce", 8, 1), ("light_small", 6, 1),
        ("baseline", 1, 6), ("fast", 1, 6), ("opt", 1, 6), ("compact", 2, 3), ("low_memory", 1, 12),
        ("low_ram", 1, 4),
    ],
)  # fmt: skip
def test_clips_of_a_step(name, clips, micro_steps):
    """Their product is a part of the recipe; presets for large cards take them at once."""
    train = preset(name).TRAIN
    assert (train.BATCH_SIZE, train.GRADIENT_ACCUMULATION_STEPS) == (clips, micro_steps)


def readme_presets(page: str) -> dict[str, str]:
    """The last column of the table of presets by the name in the first one: the GPU."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    table = re.split(r"^\| (?:preset|预设) \| .* \| GPU \|\n", text, flags=re.MULTILINE)[1]
    rows = re.findall(r"^\| (.+?) \| .+ \| (.+) \|$", table.split("\n\n")[0], re.MULTILINE)
    assert all(re.fullmatch(r"`\w+`", name) for name, _ in rows)
    return {name.strip("`"): gpu for name, gpu in rows}


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_presets_fit_the_card_of_the_readme(page):
    cards = {name: gpu for name, gpu in readme_presets(page).items() if gpu.endswith(" GB")}
    assert set(cards) == {"light", "reproduce"}
    for name, card in cards.items():
        cost = training_cost(name, preset(name), gpus=1, **GOPRO)
        gigabytes = int(card.removesuffix(" GB"))
        assert cost.gpu_gib < USABLE * gigabytes * 1e9 / 2**30, name


def test_both_readmes_name_the_same_presets_and_cards():
    english = readme_presets("README.md")
    chinese = readme_presets("README.zh-CN.md")
    assert list(english) == list(chinese)
    for name, card in english.items():
        assert card == chinese[name] or not card.endswith("GB")


@pytest.mark.parametrize(
    ("overrides", "bytes_each"),
    [([], 12), (["TRAIN.OPTIM.TYPE=adamw8bit"], 6), (["TRAIN.EMA=0.999"], 16)],
)
def test_checkpoints_hold_weights_two_moments_and_the_moving_average(overrides, bytes_each):
    cost = training_cost("baseline", preset("baseline", *overrides), gpus=1, **GOPRO)
    copy = bytes_each * counted_costs()["presets"]["baseline"]["parameters"] / 2**30
    assert cost.checkpoint_gib(3) == pytest.approx(4 * copy)


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.parametrize("name", ["light", "light_demo", "demo"])
def test_a_preset_costs_what_is_stored(name):
    import presets  # benchmarks/ is on the path of tests

    assert presets.main(["--check", name]) == 0


def test_the_count_has_the_half_weights_of_training(monkeypatch):
    """Without them, autocast casts each weight and bias, and each of their gradients."""
    from torch import nn

    from preset_step_cost import step_cost
    from vrtspike.models import build_model
    from vrtspike.models.spike_nafnet import SpikeNAFNet

    settings = preset("light_demo", "DATA.CROP_SIZE=32", "TRAIN.PRECISION=bf16-mixed")
    _, joined = step_cost(settings, 32)
    monkeypatch.setattr(SpikeNAFNet, "half_precision_weights", False)
    _, separate = step_cost(settings, 32)
    model = build_model(settings)
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    cast = sum(1 + (layer.bias is not None) for layer in layers)
    assert separate.operations - joined.operations > 2 * cast


def test_the_count_agrees_with_a_real_step():
    """Memory of tensors as PyTorch's own profiler of allocations sees it, arithmetic exactly."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from preset_step_cost import step_cost
    from step_counting import FORMULAS
    from vrtspike.losses.charbonnier import charbonnier
    from vrtspike.models import build_model

    settings = preset("light_demo", "DATA.CROP_SIZE=32", "TRAIN.BATCH_SIZE=1")
    counted, _ = step_cost(settings, 32)
    data = settings.DATA
    model = build_model(settings)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    blur = torch.rand(1, data.CLIP_LEN, 3, 32, 32)
    voxels = torch.rand(1, data.CLIP_LEN, data.NUM_VOXEL_BINS, 16, 16)  # of half the size
    counter = FlopCounterMode(display=False, custom_mapping=FORMULAS)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with counter, torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        restored = model(blur, voxels).float()
        charbonnier(restored, torch.zeros_like(restored)).backward()
    assert counted.flop == counter.get_total_flops()
    now = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    # Only the profiler sees allocations of libraries within an operation.
    batch = 4 * (blur.numel() + voxels.numel())
    assert counted.peak_bytes == pytest.approx(peak + batch, rel=0.15)
