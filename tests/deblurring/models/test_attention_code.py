"""What the kernels of window attention need on each GPU, by compiling them."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from vrtspike.config.loading import load_preset
from vrtspike.deblurring.models import build_model
from vrtspike.deblurring.models.window_attention import choice
from vrtspike.deblurring.models.window_attention.explicit import explicit_attention
from vrtspike.deblurring.models.windows import WindowPlan
from vrtspike.files import read_json

if find_spec("triton") is None:
    pytest.skip("needs the package triton", allow_module_level=True)

REPOSITORY = Path(__file__).resolve().parents[3]
BENCHMARKS = REPOSITORY / "benchmarks"
TABLE = read_json(BENCHMARKS / "results/attention_code.json")
REFRESH = "run: python benchmarks/attention_code.py --write"
# Compiling takes half a second each; all of them are compiled where this is set.
EVERY = "VRTSPIKE_EVERY_KERNEL"


@pytest.fixture
def attention_code(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import attention_code

    return attention_code


def test_the_table_holds_every_variant_on_every_gpu(attention_code: ModuleType) -> None:
    variants = attention_code.variants(attention_code.every_problem())
    names = [variant.name for variant in variants]
    assert len(names) == len(set(names))
    assert set(names) == set(TABLE["variants"]), REFRESH


def is_full(name: str) -> bool:
    """Three tiles of 128 x 128 scores: a program that a multiprocessor of 9.0 has room for once."""
    joint = re.match(r"sm_90 joint: (\d+) tokens", name)
    return joint is not None and int(joint[1]) > 64


def test_no_variant_spills() -> None:
    spilled = {name: code["stack"] for name, code in TABLE["variants"].items() if code["stack"]}
    assert [name for name in spilled if not is_full(name)] == []
    # Some addresses, which are read once a window: of 800 instructions six.
    assert max(spilled.values()) <= 32


def test_every_variant_fits_into_the_smallest_shared_memory() -> None:
    # 99 KiB for a program on GPUs of compute capability 8.6 and 8.9, 227 KiB on 9.0.
    shared = {name: code["shared"] for name, code in TABLE["variants"].items()}
    assert max(size for name, size in shared.items() if not is_full(name)) <= 99 * 1024
    assert max(shared.values()) <= 227 * 1024


def loop(kernel: str, kind: str, capability: int = 90) -> int:
    """Instructions of an iteration; two names for one kernel would be a fault of the test."""
    code = TABLE["variants"][f"sm_{capability} {kernel}: {kind}"]
    return max(code["loops"])


def test_loops_are_as_short_as_they_are_said_to_be() -> None:
    plain, masked = "320 tokens x 6 x 16, bf16, bias", "320 tokens x 6 x 16, bf16, bias, mask"
    # An iteration of both makes the tiles of all five blocks of keys or of queries.
    assert loop("whole", plain) / 5 <= 150
    assert loop("whole", masked) / 5 <= 310
    assert loop("gradient", plain) / 5 + loop("bias", plain) <= 500
    assert loop("gradient", masked) / 5 + loop("bias", masked) <= 720
    # Of a window all of it, for all gradients.
    assert loop("joint", "128 tokens x 6 x 16, bf16, bias") <= 720
    assert loop("joint", "128 tokens x 6 x 16, bf16, bias, mask") <= 800
    assert loop("joint", "64 tokens x 6 x 20, bf16, bias") <= 710
    # Of a window of one block all heads, one after the other.
    assert loop("forward", "64 tokens x 6 x 16, bf16") <= 260
    assert loop("gradient", "64 tokens x 6 x 16, bf16") <= 370
    # 245 tokens, which no block divides, cost what 256 would.
    odd = loop("whole", "245 tokens x 6 x 16, bf16, bias, mask")
    assert odd <= 1.05 * 4 / 6 * loop("whole", "384 tokens x 6 x 16, bf16, bias, mask")


def chosen(attention_code: ModuleType) -> list[Any]:
    """What is compiled: what baseline runs on an H200, and what is nearest to a spill elsewhere."""
    every = list(attention_code.variants(attention_code.every_problem()))
    if os.environ.get(EVERY):
        return every
    of_baseline = {(5, 24), (64, 16), (64, 20), (128, 16), (320, 16), (320, 20)}
    of_others = {(32, 16), (245, 20), (384, 16)}

    def is_chosen(variant: Any) -> bool:
        of = variant.problem
        size = (of.tokens, of.width)
        masked = of.masked or of.tokens in (5, 32)
        if variant.capability != 90:
            # Masks take registers, and so do the gradients of many queries or channels.
            gradient = variant.kernel in ("gradient", "whole") and size in {
                (320, 16),
                (384, 16),
                (245, 20),
            }
            return masked and (gradient or (variant.kernel == "bias" and size == (320, 20)))
        if masked:
            return size in {(5, 24), (320, 16), *of_others}
        return size in of_baseline and variant.kernel != "layout"

    return [variant for variant in every if is_chosen(variant)]


@pytest.mark.endurance
@pytest.mark.timeout(1200)
def test_the_compiler_makes_what_the_table_says(attention_code: ModuleType) -> None:
    import triton

    variants = chosen(attention_code)
    assert {variant.capability for variant in variants} == set(attention_code.CAPABILITIES)
    found = {variant.name: attention_code.row(variant.compile()) for variant in variants}
    if triton.__version__ != TABLE["triton"]:
        # Another compiler allots registers otherwise; that its code can run is all to be held.
        fitting = [code["shared"] for name, code in found.items() if not is_full(name)]
        assert max(fitting) <= 99 * 1024
        return
    assert found == {name: TABLE["variants"][name] for name in found}, REFRESH


def test_a_preset_meets_the_problems_that_are_said_of_it(
    attention_code: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_preset(
        REPOSITORY / "config/presets/demo.yaml", ["MODEL.VRT.ATTENTION=explicit"]
    )
    met = set()

    def watched(
        qkv: torch.Tensor, bias: torch.Tensor | None, plan: WindowPlan, heads: int
    ) -> torch.Tensor:
        kind = (plan.tokens, qkv.shape[2] // 3 // heads, heads, "fp32", bias is not None)
        windows = len(plan.query)
        if plan.unmasked:
            met.add(attention_code.Problem(*kind, masked=False))
        if plan.unmasked < windows:
            met.add(attention_code.Problem(*kind, masked=True))
        return explicit_attention(qkv, bias, plan, heads)

    watched_table = dict.fromkeys(choice.IMPLEMENTATIONS, watched)
    monkeypatch.setattr(choice, "IMPLEMENTATIONS", watched_table)
    data = settings.DATA
    sizes = {"bins": data.K, "clip_len": data.CLIP_LEN, "crop_size": data.CROP_SIZE}
    model = build_model(settings.MODEL, **sizes, pretrained=False)
    frames = torch.rand(1, data.CLIP_LEN, 3, data.CROP_SIZE, data.CROP_SIZE)
    voxels = torch.rand(1, data.CLIP_LEN, data.K, data.CROP_SIZE, data.CROP_SIZE)
    with torch.no_grad():
        model(frames, voxels)
    assert met == attention_code.problems_of(settings)
