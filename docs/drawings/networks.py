"""Drawings of both models, with the numbers of a preset."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from svg import FRAME, NETWORK, RULE, SPIKE, Box, Drawing
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.model import RECONSTRUCTION_GROUPS, SKIPS, STAGES
from vrtspike.models.stages import STAGE_LEVELS
from vrtspike.models.vrt import NUM_SCALES

WIDTH = 900
_ROW = 84
"""Pixels from a scale to the next one."""
_HEIGHT = 50
"""Of a box."""
_VOXELS, _SPIKES, _DOWN, _UP = 16, 166, 422, 660
"""Left edges of the columns: input of the spikes, their features, way down, way up."""
_VOXELS_WIDTH, _SPIKES_WIDTH, _NETWORK_WIDTH = 124, 180, 160
_LABELS = WIDTH - 16


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count(1, "block"), count(2, "block")
    ('1 block', '2 blocks')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def scale_name(scale: int) -> str:
    """Return the name of a scale, such as ``1/4 size``."""
    return f"1/{2**scale} size" if scale else "full size"


def draw_scales(drawing: Drawing, first: float, number: int) -> None:
    """Name the scales at the right edge."""
    for scale in range(number):
        y = first + scale * _ROW
        drawing.note((_LABELS, y + _HEIGHT / 2), scale_name(scale), anchor="end")


def draw_frames(drawing: Drawing, noun: str) -> tuple[Box, Box]:
    """Draw the blurry and the restored frames at the top, and return their boxes."""
    blurry = Box(_DOWN, 18, _NETWORK_WIDTH, 42)
    restored = Box(_UP, 18, _NETWORK_WIDTH, 42)
    drawing.box(blurry, [f"blurry {noun}", "3 colours"], FRAME)
    drawing.box(restored, [f"restored {noun}", "3 colours"], FRAME)
    return blurry, restored


def draw_sum(drawing: Drawing, blurry: Box, restored: Box) -> Box:
    """Draw the sum below the restored frames, to which the blurry ones are added."""
    total = Box(_UP + _NETWORK_WIDTH / 2 - 30, 82, 60, 36)
    turn = _UP - 36
    y = total.y + 10
    drawing.arrow([blurry.right, (turn, blurry.right[1]), (turn, y), (total.x, y)], FRAME)
    drawing.box(total, ["+"], FRAME)
    drawing.arrow([total.top, restored.bottom], FRAME)
    return total


def draw_readout(drawing: Drawing, features: Box, total: Box) -> None:
    """Draw the way from the finest spike features to the sum."""
    x = features.x + features.width / 2
    y = total.y + total.height - 10
    drawing.arrow([(x, features.y), (x, y), (total.x, y)], SPIKE)
    drawing.note((x + 8, y - 10), "readout: one convolution")


def spike_nafnet(settings: DeblurringSettings) -> str:
    """Draw SpikeNAFNet for a sensor of half the frames' size.

    Args:
        settings: settings of the preset.

    Returns:
        An SVG file.
    """
    naf = settings.MODEL.NAF
    bins = settings.DATA.NUM_VOXEL_BINS
    scales = len(naf.ENCODER_BLOCKS)
    top = 150
    drawing = Drawing(
        WIDTH,
        top + (scales + 1) * _ROW + 92,
        "SpikeNAFNet: a U-Net over frames that takes spike features at each scale",
    )
    blurry, restored = draw_frames(drawing, "frame")
    total = draw_sum(drawing, blurry, restored)
    down = [Box(_DOWN, top + scale * _ROW, _NETWORK_WIDTH, _HEIGHT) for scale in range(scales + 1)]
    up = [Box(_UP, top + scale * _ROW, _NETWORK_WIDTH, _HEIGHT) for scale in range(scales)]
    spikes = [Box(_SPIKES, box.y, _SPIKES_WIDTH, _HEIGHT) for box in down]
    voxels = Box(_VOXELS, down[1].y - 14, _VOXELS_WIDTH, _HEIGHT + 28)

    draw_readout(drawing, spikes[0], total)
    drawing.arrow([blurry.bottom, down[0].top], NETWORK)
    blocks = [*naf.ENCODER_BLOCKS, naf.MIDDLE_BLOCKS]
    for scale, (box, number) in enumerate(zip(down, blocks, strict=True)):
        lines = [count(number, "NAF block"), f"{naf.WIDTH * 2**scale} channels"]
        drawing.box(box, lines, NETWORK)
        drawing.arrow([spikes[scale].right, box.left], SPIKE)
        if scale:
            drawing.arrow([down[scale - 1].bottom, box.top], NETWORK)
    for scale, (box, number) in enumerate(zip(up, naf.DECODER_BLOCKS, strict=True)):
        lines = [count(number, "NAF block"), f"{naf.WIDTH * 2**scale} channels"]
        drawing.box(box, lines, NETWORK)
        drawing.arrow([down[scale].right, box.left], NETWORK)
        above = total if scale == 0 else up[scale - 1]
        drawing.arrow([box.top, above.bottom], NETWORK)
    middle = down[-1].right
    drawing.arrow([middle, (up[-1].bottom[0], middle[1]), up[-1].bottom], NETWORK)

    channels = f"{naf.SPIKE_WIDTH} channels"
    drawing.box(spikes[0], ["enlarged", channels], SPIKE)
    drawing.box(spikes[1], [count(naf.SPIKE_BLOCKS, "NAF block"), channels], SPIKE)
    drawing.arrow([spikes[1].top, spikes[0].bottom], SPIKE)
    for above, box in pairwise(spikes[1:]):
        drawing.box(box, ["1 NAF block", channels], SPIKE)
        drawing.arrow([above.bottom, box.top], SPIKE)
    lines = [
        "spikes",
        f"{bins} bins, and",
        f"{naf.NEIGHBOUR_BINS} of the frames",
        "before and after",
    ]
    drawing.box(voxels, lines, SPIKE)
    drawing.arrow([voxels.right, spikes[1].left], SPIKE)
    name_arrow(drawing, spikes[0], "joined")
    name_arrow(drawing, down[0], "added")
    draw_scales(drawing, top, scales + 1)
    steps = ["norm", "1x1", "3x3 per channel", "gate", "channel attention", "1x1", "add"]
    steps += ["norm", "1x1", "gate", "1x1", "add"]
    draw_strip(drawing, top + (scales + 1) * _ROW + 6, "A NAF block", steps)
    return drawing.document()


def name_arrow(drawing: Drawing, source: Box, words: str) -> None:
    """Write above the arrow that begins at the right edge of a box."""
    x, y = source.right
    drawing.note((x + 8, y - 11), words)


def draw_strip(drawing: Drawing, y: float, title: str, steps: Sequence[str]) -> None:
    """Draw the steps of a part of the network below the picture."""
    drawing.line([(_VOXELS, y), (_LABELS, y)], RULE, dashed=True)
    drawing.text((_VOXELS, y + 22), f"{title}:", bold=True)
    drawing.chain((_VOXELS, y + 54), steps, NETWORK, _LABELS - _VOXELS)


def vrt_spike(settings: DeblurringSettings) -> str:
    """Draw VRT-Spike, with alignment by optical flow.

    Args:
        settings: settings of the preset.

    Returns:
        An SVG file.
    """
    model = settings.MODEL
    depths, widths = model.VRT_DEPTHS, model.VRT.EMBED_DIMS
    top = 240
    drawing = Drawing(
        WIDTH,
        top + NUM_SCALES * _ROW + 92,
        "VRT-Spike: VRT over a clip, whose stages 1 to 4 are fused with spike features",
    )
    blurry, restored = draw_frames(drawing, "clip")
    total = draw_sum(drawing, blurry, restored)
    stages = {}
    for stage, level in enumerate(STAGE_LEVELS, start=1):
        column = _DOWN if stage <= NUM_SCALES else _UP
        stages[stage] = Box(column, top + level * _ROW, _NETWORK_WIDTH, _HEIGHT)
    stages[8] = Box(_UP, top - _ROW, _NETWORK_WIDTH, _HEIGHT)
    flow = Box(_DOWN, top - _ROW, _NETWORK_WIDTH, _HEIGHT)
    spikes = [
        Box(_SPIKES, stages[stage].y, _SPIKES_WIDTH, _HEIGHT) for stage in range(1, NUM_SCALES + 1)
    ]
    voxels = Box(_VOXELS, spikes[0].y, _VOXELS_WIDTH, _HEIGHT)

    draw_readout(drawing, spikes[0], total)
    drawing.arrow([blurry.bottom, flow.top], NETWORK)
    drawing.box(flow, ["optical flow", "aligns neighbours"], NETWORK)
    drawing.arrow([flow.bottom, stages[1].top], NETWORK)
    for stage in range(1, STAGES + 1):
        lines = [f"stage {stage}", f"{count(depths[stage - 1], 'block')}, {widths[stage - 1]} ch."]
        drawing.box(stages[stage], lines, NETWORK)
    groups = f"{RECONSTRUCTION_GROUPS} x {count(depths[STAGES], 'block')}, {widths[STAGES]} ch."
    drawing.box(stages[8], ["stage 8", groups], NETWORK)
    for stage in range(2, NUM_SCALES + 1):
        drawing.arrow([stages[stage - 1].bottom, stages[stage].top], NETWORK)
    deepest = stages[NUM_SCALES].right
    drawing.arrow([deepest, (stages[5].bottom[0], deepest[1]), stages[5].bottom], NETWORK)
    for stage in range(6, 9):
        draw_skip(drawing, stages[SKIPS[stage]], stages[stage - 1], stages[stage])
    drawing.arrow([stages[8].top, total.bottom], NETWORK)

    drawing.box(voxels, ["spikes", f"{settings.DATA.NUM_VOXEL_BINS} bins"], SPIKE)
    drawing.arrow([voxels.right, spikes[0].left], SPIKE)
    for scale, box in enumerate(spikes):
        drawing.box(box, ["3D convolutions", f"attention in time, {widths[scale]} ch."], SPIKE)
        drawing.arrow([box.right, stages[scale + 1].left], SPIKE)
        if scale:
            drawing.arrow([spikes[scale - 1].bottom, box.top], SPIKE)
    name_arrow(drawing, spikes[0], "fusion")
    draw_scales(drawing, top, NUM_SCALES)
    mutual = int(depths[0] * model.VRT.MUL_ATTN_RATIO)
    steps = ["resize", f"{count(mutual, 'block')}: pairs of frames"]
    steps += [f"{count(depths[0] - mutual, 'block')}: {model.window[0]} frames"]
    steps += ["alignment by flow", "fusion (stages 1 to 4)"]
    title = "Stages 1 to 7 (a block: window attention, then a feed-forward layer)"
    draw_strip(drawing, top + NUM_SCALES * _ROW + 6, title, steps)
    return drawing.document()


def draw_skip(drawing: Drawing, source: Box, below: Box, above: Box) -> None:
    """Draw the way between two stages, and the output of an earlier stage that is added to it."""
    x = below.top[0]
    y = (below.y + above.y + above.height) / 2
    drawing.arrow([below.top, above.bottom], NETWORK)
    start_y = source.y + 8
    turn = (source.x + source.width + below.x) / 2
    drawing.arrow([(source.right[0], start_y), (turn, start_y), (turn, y), (x - 9, y)], NETWORK)
    drawing.plus((x, y))
