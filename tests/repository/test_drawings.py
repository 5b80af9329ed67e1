"""Numbers in the pictures that ``docs/drawings/draw.py`` draws, against the code they show."""

from __future__ import annotations

import doctest
import html
import importlib
import re
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
import torch

from tests.helpers.presets import deblurring_presets
from vrtspike.data.clips.neighbors import voxel_frames
from vrtspike.models import build_model
from vrtspike.models.restorer import Restorer
from vrtspike.models.spike_nafnet import NAFBlock
from vrtspike.models.stages import TMSABlock

LINE = re.compile(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>')


def words(repository: Path, name: str) -> list[str]:
    """The lines of a picture in the order in which they are drawn."""
    drawing = (repository / f"docs/images/{name}.svg").read_text(encoding="utf-8")
    return [html.unescape(text) for _, _, text in LINE.findall(drawing)]


def build(repository: Path, preset: str) -> Restorer:
    """The network of a preset, without memory for its weights."""
    with torch.device("meta"):
        return build_model(deblurring_presets(repository)[preset], pretrained=False)


def label(blocks: torch.nn.Module) -> list[str]:
    """The two lines of a box with NAF blocks."""
    parts = [module for module in blocks.modules() if isinstance(module, NAFBlock)]
    number = f"{len(parts)} NAF block{'s' if len(parts) > 1 else ''}"
    return [number, f"{parts[0].norm1.normalized_shape[0]} channels"]


def test_the_light_model_has_the_blocks_of_its_picture(repository):
    model = build(repository, "light")
    lines = words(repository, "spike_nafnet")
    boxes = [lines[n : n + 2] for n in range(len(lines)) if re.fullmatch(r"\d+ NAF.*", lines[n])]
    finest, *coarser = model.spikes.blocks
    finest_blocks = torch.nn.ModuleList([finest, model.spikes.further])
    spikes = [label(finest_blocks), *map(label, coarser)]
    ways = [*model.encoder, model.middle, *model.decoder]
    assert boxes == [*map(label, ways), *spikes]
    bins = model.spikes.stem.in_channels - 1
    neighbors = model.neighbor_bins
    assert f"{bins - 2 * neighbors} bins, and" in lines
    assert f"{neighbors} of the frames" in lines


def test_the_light_model_joins_spikes_of_each_scale_with_frames(repository):
    """The arrows of the picture, for a sensor of half the frames' size."""
    model = build(repository, "light")
    sizes = []
    for fusion in model.fusion:
        fusion.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].shape[-1]))
    pyramid = []
    model.spikes.register_forward_hook(
        lambda _, __, levels: pyramid.extend(level.shape[-1] for level in levels)
    )
    with torch.device("meta"):
        voxels = torch.zeros(1, voxel_frames(1, neighbors=True), 32, 32, 32)
        model(torch.zeros(1, 1, 3, 64, 64), voxels)
    assert sizes == [64, 32, 16, 8, 4]
    assert pyramid == [32, 16, 8, 4]


def test_vrt_spike_has_the_stages_of_its_picture(repository):
    model = build(repository, "baseline")
    lines = words(repository, "vrt_spike")
    for number in range(1, 9):
        stage = model.vrt.get_submodule(f"stage{number}")
        blocks = [module for module in stage.modules() if isinstance(module, TMSABlock)]
        channels = blocks[0].norm1.normalized_shape[0]
        text = lines[lines.index(f"stage {number}") + 1]
        groups = len(stage) - 1 if number == 8 else 1
        prefix = f"{groups} x " if number == 8 else ""
        assert text == f"{prefix}{len(blocks) // groups} blocks, {channels} ch."
    first = model.vrt.stage1
    pairs, clips = (
        sum(isinstance(module, TMSABlock) for module in group.modules())
        for group in (first.residual_group1, first.residual_group2)
    )
    assert f"{pairs} blocks: pairs of frames" in lines
    assert f"{clips} blocks: 6 frames" in lines
    widths = [attention.norm1.normalized_shape[0] for attention in model.spike_attention]
    assert [f"attention in time, {width} ch." for width in widths] == [
        line for line in lines if line.startswith("attention")
    ]


def test_the_exposure_is_divided_as_the_page_says(repository):
    """The formula of docs/data-formats.md for 88 steps, 32 bins and the sharp instant 40."""
    drawing = (repository / "docs/images/exposure.svg").read_text(encoding="utf-8")
    lines = words(repository, "exposure")
    assert "32 bins" in lines
    assert "sharp instant: the sharp frame shows step 40" in lines
    assert "open for 88 steps: the exposure of one blurry frame" in lines
    bins = re.findall(r'<rect x="([\d.]+)" [^>]*width="([\d.]+)" [^>]*stroke="#00897b"', drawing)
    steps = [round(float(width) / 6.5) for _, width in bins]
    ends = [[j + int((side - 16) * (j / 16) ** 3) for j in range(17)] for side in (40, 48)]
    before, after = ([stop - start for start, stop in pairwise(side)] for side in ends)
    assert steps == [*reversed(before), *after]
    lefts = [float(left) for left, _ in bins]
    assert lefts == pytest.approx([172 + 6.5 * s for s in accumulate(steps[:-1], initial=0)])


@pytest.mark.parametrize("name", ["exposure", "networks"])
def test_the_examples_of_the_program_are_true(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
