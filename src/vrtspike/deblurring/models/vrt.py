"""VRT, the Video Restoration Transformer, for deblurring.

Source: Liang et al., 2022, "VRT: A Video Restoration Transformer" (IEEE TIP 2024). Parameter names
and shapes are those of the published GoPro model; the code is this project's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.alignment import DeformableAlignment
from vrtspike.deblurring.models.attention import WindowAttention
from vrtspike.deblurring.models.flow import SpyNet, corner_warp
from vrtspike.deblurring.models.layers import GEGLU, FrameConv, Recomputed, pad_to_multiple
from vrtspike.deblurring.models.mixed_precision import residual_stream
from vrtspike.deblurring.models.stages import (
    Direction,
    ParallelWarping,
    ReconstructionGroup,
    Stage,
)
from vrtspike.deblurring.models.tmsa import TMSABlock, TMSAGroup
from vrtspike.deblurring.models.windows import PlanCache, Size3
from vrtspike.deblurring.settings.model import STAGES
from vrtspike.monitoring.timing import section

SCALES = 4
_MULTIPLE = 2 ** (SCALES - 1)
# Scale (a power of two) and change of scale of stages 1 to 7.
_STAGE_SCALES = (0, 1, 2, 3, 2, 1, 0)
_DIRECTIONS: tuple[Direction, ...] = ("none", "down", "down", "down", "up", "up", "up")
_WARPED_CHANNELS = 3 + 12 + 12
_MAX_OFFSET = 10.0

Flows = tuple[list[Tensor], list[Tensor]]
Fuse = Callable[[int, Tensor], Tensor]


class VRT(nn.Module):
    """Video restoration transformer with the published arguments.

    Which of them make a model, the settings know (:mod:`vrtspike.deblurring.settings.model`).

    Args:
        img_size: (T, H, W) of the training clips, of no effect: the model takes any size.
        window_size: (Wd, Wh, Ww) of self attention; mutual attention uses (2, Wh, Ww).
        depths: blocks of stages 1-7, then of each group of stage 8.
        indep_reconsts: indices into ``depths`` of groups whose windows hold a single frame.
        embed_dims: channels, one for each entry of ``depths``.
        num_heads: attention heads, one for each entry of ``depths``.
        mul_attn_ratio: share of the blocks of stages 1-7 with mutual attention.
        mlp_ratio: hidden width of the feed-forward layers over the channels.
        drop_path_rate: stochastic depth of the last block; it rises linearly from 0.
        pa_frames: neighbours of parallel warping: 2, or 0 for a network without flow and
            alignment.
        deformable_groups: offset groups of the alignment.
        use_checkpoint_attn: recompute attention and alignment in the backward pass.
        use_checkpoint_ffn: recompute feed-forward layers in the backward pass.
        attention: how window attention is computed: ``auto``, ``sdpa`` or ``recompute``.
    """

    def __init__(
        self,
        img_size: Size3 = (6, 192, 192),
        window_size: Size3 = (6, 8, 8),
        depths: Sequence[int] = (8,) * 7 + (4,) * 4,
        indep_reconsts: Sequence[int] = (9, 10),
        embed_dims: Sequence[int] = (96,) * 7 + (120,) * 4,
        num_heads: Sequence[int] = (6,) * 11,
        mul_attn_ratio: float = 0.75,
        mlp_ratio: float = 2.0,
        drop_path_rate: float = 0.2,
        pa_frames: int = 2,
        deformable_groups: int = 16,
        use_checkpoint_attn: bool = False,
        use_checkpoint_ffn: bool = False,
        attention: str = "auto",
    ) -> None:
        super().__init__()
        window: Size3 = (window_size[0], window_size[1], window_size[2])
        group = partial(TMSAGroup, mlp_ratio=mlp_ratio, attention=attention, plans=PlanCache())
        last = max(sum(depths) - 1, 1)
        rates = [drop_path_rate * i / last for i in range(sum(depths))]
        drop_paths = [rates[a:b] for a, b in pairwise(accumulate(depths, initial=0))]

        self.embed_dims = tuple(embed_dims)
        self.pa_frames = pa_frames
        self.checkpoints_all = use_checkpoint_attn and use_checkpoint_ffn
        if pa_frames:
            self.spynet = SpyNet()
        self.conv_first = FrameConv(_WARPED_CHANNELS if pa_frames else 3, embed_dims[0])
        for i in range(STAGES):
            stage = Stage(
                embed_dims[max(i - 1, 0)],
                embed_dims[i],
                direction=_DIRECTIONS[i],
                heads=num_heads[i],
                window=window,
                drop_paths=drop_paths[i],
                mutual_ratio=mul_attn_ratio,
                deformable_groups=deformable_groups if pa_frames else 0,
                max_magnitude=_MAX_OFFSET / 2 ** _STAGE_SCALES[i],
                group=group,
            )
            self.add_module(f"stage{i + 1}", stage)

        width = embed_dims[STAGES]
        enter = nn.Sequential(
            nn.Identity(), nn.LayerNorm(embed_dims[STAGES - 1]), nn.Linear(embed_dims[6], width)
        )
        groups = [
            ReconstructionGroup(
                embed_dims[i],
                heads=num_heads[i],
                window=(1, *window[1:]) if i in indep_reconsts else window,
                drop_paths=drop_paths[i],
                group=group,
            )
            for i in range(STAGES, len(depths))
        ]
        self.stage8 = nn.ModuleList([enter, *groups])
        self.norm = nn.LayerNorm(width)
        self.conv_after_body = nn.Linear(width, embed_dims[0])
        self.conv_last = FrameConv(embed_dims[0], 3)
        _set_checkpoints(self, attention=use_checkpoint_attn, feed_forward=use_checkpoint_ffn)

    def flows(self, x: Tensor) -> Flows:
        """Flows between neighbouring frames at scales 1, 1/2, 1/4, 1/8.

        Args:
            x: (B, T, 3, H, W) in [0, 1], T at least 2.

        Returns:
            Backward flows (frame t into t + 1) and forward flows (frame t + 1 into t), for each
            scale (B, T-1, 2, H / s, W / s) in pixels of that scale, x first.
        """
        b, t = x.shape[:2]
        early, late = x[:, :-1].flatten(0, 1), x[:, 1:].flatten(0, 1)
        pictures = torch.cat((early, late)), torch.cat((late, early))
        scales = self.spynet(*pictures, SCALES)
        pairs = [flow.unflatten(0, (2, b, t - 1)) for flow in scales]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def forward(self, x: Tensor, fuse: Fuse | None = None) -> Tensor:
        """Restore a clip.

        Args:
            x: (B, T, 3, H, W) blurry frames in [0, 1]; any T, H and W from 1.
            fuse: called after stages 1-4 with the scale (0-3) and the stage's output
                (B, T, H / s, W / s, C) of the padded clip; what it returns takes its place.

        Returns:
            (B, T, 3, H, W), not clamped.

        Raises:
            ValueError: ``x`` has another shape.
        """
        if x.dim() != 5 or x.shape[2] != 3 or 0 in x.shape:
            raise ValueError(f"expected a clip of shape (B, T, 3, H, W), got {tuple(x.shape)}")
        height, width = x.shape[-2:]
        padded = pad_to_multiple(x, _MULTIPLE)
        # Alignment of a clip of one frame looks at none.
        flows: Flows = ([torch.empty(0)] * SCALES,) * 2
        if self.pa_frames:
            with section("flow"):
                flows = self.flows(padded) if x.shape[1] > 1 else flows
                padded = _warped_inputs(padded, flows)
        features = self.conv_first(padded.permute(0, 1, 3, 4, 2))  # (B, T, H, W, C)
        body = self._body(features, flows, fuse)
        features = features + self.conv_after_body(self.norm(body))
        restored = self.conv_last(features).permute(0, 1, 4, 2, 3)
        return x + restored[..., :height, :width]

    def _body(self, x: Tensor, flows: Flows, fuse: Fuse | None) -> Tensor:
        """Stages 1-8: (B, T, H, W, C) -> (B, T, H, W, C of stage 8)."""
        outputs: list[Tensor] = []
        for number, scale in enumerate(_STAGE_SCALES, start=1):
            stage = self.get_submodule(f"stage{number}")
            assert isinstance(stage, Stage)
            # Stages 6 and 7 also receive the last stage of their scale on the way down.
            skip = outputs[8 - number] if number > 5 else None
            with section(f"stage{number}"):
                x = stage.attend(x if skip is None else x + skip)
            if self.pa_frames:
                with section("alignment"):
                    x = stage.align(x, flows[0][scale], flows[1][scale])
            if fuse is not None and number <= SCALES:
                with section(f"fusion{number}"):
                    x = fuse(scale, x)
            outputs.append(x)
        with section("stage8"):
            enter, *groups = self.stage8
            assert isinstance(enter, nn.Sequential)
            x = residual_stream(enter(x + outputs[0]))
            for group in groups:
                x = group(x)
            return x


def _set_checkpoints(model: nn.Module, *, attention: bool, feed_forward: bool) -> None:
    """Choose the modules that keep only their arguments for the backward pass.

    With both, whole blocks do: they keep one tensor instead of one for each branch.
    """
    kinds: tuple[type[Recomputed], ...] = ()
    if attention and feed_forward:
        kinds = (TMSABlock, ParallelWarping, SpyNet)
    elif attention:
        kinds = (WindowAttention, DeformableAlignment)
    elif feed_forward:
        kinds = (GEGLU,)
    for module in model.modules():
        if isinstance(module, kinds):
            module.checkpoint = True


def _warped_inputs(x: Tensor, flows: Flows) -> Tensor:
    """Each frame with its next and previous one warped onto it: (B, T, 27, H, W)."""
    b, t, _, h, w = x.shape
    if t == 1:
        return torch.cat((x, x.new_zeros(b, t, _WARPED_CHANNELS - 3, h, w)), dim=2)
    backward, forward = flows
    edge = x.new_zeros(b, 1, 12, h, w)
    later = corner_warp(x[:, 1:].flatten(0, 1), backward[0].flatten(0, 1)).unflatten(0, (b, t - 1))
    earlier = corner_warp(x[:, :-1].flatten(0, 1), forward[0].flatten(0, 1)).unflatten(
        0, (b, t - 1)
    )
    return torch.cat((x, torch.cat((later, edge), 1), torch.cat((edge, earlier), 1)), dim=2)
