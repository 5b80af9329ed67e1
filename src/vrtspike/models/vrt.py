"""VRT, the Video Restoration Transformer, for deblurring.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer" (IEEE TIP 2024). Parameter names
and shapes are those of the published GoPro model; the code is this project's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from vrtspike.deblurring_settings.model import SKIPS, STAGES, ModelSettings
from vrtspike.models.attention import WindowAttention
from vrtspike.models.flow import SpyNet, corner_warp, gather_neighbors, neighbor_pairs
from vrtspike.models.layers import GEGLU, FrameConv2d, RecomputedModule, pad_to_multiple
from vrtspike.models.mixed_precision import residual_stream
from vrtspike.models.parallel_warping import DeformableAlignment
from vrtspike.models.stages import ParallelWarping, ReconstructionGroup, Stage, TMSABlock
from vrtspike.monitoring.timing import section

NUM_SCALES = 4
_MULTIPLE = 2 ** (NUM_SCALES - 1)
_WARPED_CHANNELS = 3 + 12 + 12

FusionFunction = Callable[[int, Tensor], Tensor]
"""Returns the features of a scale (0-3), fused with others, from the scale and the features."""

_RECOMPUTED: dict[tuple[bool, bool], tuple[type[RecomputedModule], ...]] = {
    (False, False): (),
    (True, False): (WindowAttention, DeformableAlignment),
    (False, True): (GEGLU,),
    (True, True): (TMSABlock, ParallelWarping, SpyNet),
}
"""Modules that keep only their arguments for the backward pass, by USE_CHECKPOINT_ATTN and
USE_CHECKPOINT_FFN. With both keys, whole blocks are recomputed: they keep one tensor instead of one
per branch."""


class VRT(nn.Module):
    """Video restoration transformer; it takes clips of any size.

    Args:
        settings: ``VRT_DEPTHS``, ``WINDOW_SIZE`` and the section ``VRT`` are used.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.settings = settings.VRT
        depths = settings.VRT_DEPTHS
        widths = self.settings.EMBED_DIMS
        last = max(sum(depths) - 1, 1)
        rates = [self.settings.DROP_PATH_RATE * i / last for i in range(sum(depths))]
        drop_paths = [rates[a:b] for a, b in pairwise(accumulate(depths, initial=0))]
        if self.settings.PA_FRAMES:
            self.spynet = SpyNet()
        self.conv_first = FrameConv2d(_WARPED_CHANNELS if self.settings.PA_FRAMES else 3, widths[0])
        for i in range(STAGES):
            self.add_module(f"stage{i + 1}", Stage(i, settings, drop_paths[i]))
        last_width = widths[STAGES - 1]
        width = widths[STAGES]
        enter = nn.Sequential(nn.Identity(), nn.LayerNorm(last_width), nn.Linear(last_width, width))
        groups = [
            ReconstructionGroup(i, settings, drop_paths[i]) for i in range(STAGES, len(depths))
        ]
        self.stage8 = nn.ModuleList([enter, *groups])
        self.norm = nn.LayerNorm(width)
        self.conv_after_body = nn.Linear(width, widths[0])
        self.conv_last = FrameConv2d(widths[0], 3)
        recomputation = (self.settings.USE_CHECKPOINT_ATTN, self.settings.USE_CHECKPOINT_FFN)
        for module in self.modules():
            if isinstance(module, _RECOMPUTED[recomputation]):
                module.recompute = True

    def estimate_flows(self, x: Tensor) -> list[Tensor]:
        """Return flows between neighbouring frames at scales 1, 1/2, 1/4, 1/8.

        Args:
            x: (B, T, 3, H, W) in [0, 1].

        Returns:
            For each scale (2 * B * (T-1), 2, H / s, W / s) in pixels of that scale, x first: of
            each pair of :func:`~vrtspike.models.flow.neighbor_pairs` from the frame into its
            neighbour.
        """
        return self.spynet(*neighbor_pairs(x), NUM_SCALES)

    def forward(self, x: Tensor, fuse: FusionFunction | None = None) -> Tensor:
        """Restore a clip.

        Args:
            x: (B, T, 3, H, W) blurry frames in [0, 1]; any T, H and W from 1.
            fuse: called after stages 1-4 with the scale (0-3) and the stage's output
                (B, T, H / s, W / s, C) of the padded clip; its result replaces that output.

        Returns:
            (B, T, 3, H, W), not clamped.

        Raises:
            ValueError: ``x`` has another shape.
        """
        if x.dim() != 5 or x.shape[2] != 3 or 0 in x.shape:
            raise ValueError(f"expected a clip of shape (B, T, 3, H, W), got {tuple(x.shape)}")
        height, width = x.shape[-2:]
        padded = pad_to_multiple(x, _MULTIPLE)
        flows: list[Tensor] = []
        if self.settings.PA_FRAMES:
            with section("flow"):
                flows = self.estimate_flows(padded)
                _, neighbors = neighbor_pairs(padded)
                warped = corner_warp(neighbors, flows[0])
                padded = torch.cat((padded, gather_neighbors(warped, len(x), dim=2)), dim=2)
        features = self.conv_first(padded.permute(0, 1, 3, 4, 2))  # (B, T, H, W, C)
        body = self._body(features, flows, fuse)
        features = features + self.conv_after_body(self.norm(body))
        restored = self.conv_last(features).permute(0, 1, 4, 2, 3)
        return x + restored[..., :height, :width]

    def _body(self, x: Tensor, flows: Sequence[Tensor], fuse: FusionFunction | None) -> Tensor:
        """Stages 1-8: (B, T, H, W, C) -> (B, T, H, W, C of stage 8)."""
        outputs: dict[int, Tensor] = {}
        for index in range(1, STAGES + 1):
            stage = self.get_submodule(f"stage{index}")
            assert isinstance(stage, Stage)
            with section(f"stage{index}"):
                if index in SKIPS:
                    x = x + outputs[SKIPS[index]]
                x = stage.attend(x)
            if self.settings.PA_FRAMES:
                with section("alignment"):
                    x = stage.align(x, flows[stage.scale])
            if fuse is not None and index <= NUM_SCALES:
                with section(f"fusion{index}"):
                    x = fuse(stage.scale, x)
            outputs[index] = x
        with section("stage8"):
            enter, *groups = self.stage8
            x = residual_stream(enter(x + outputs[SKIPS[8]]))
            for group in groups:
                x = group(x)
            return x
