"""VRT with a spike branch, or without one behind the same interface."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from vrtspike.deblurring_settings.model import ModelSettings
from vrtspike.io.weights import read_weights
from vrtspike.models.layers import FrameConv2d, zero_init
from vrtspike.models.restorer import BACKBONE, FLOW, Restorer, repeat_pixels, require_voxels
from vrtspike.models.spike_encoder import SpikeEncoder
from vrtspike.models.stages import TMSABlock
from vrtspike.models.temporal_attention import TemporalCrossAttention, TemporalSelfAttention
from vrtspike.models.vrt import NUM_SCALES, VRT
from vrtspike.models.vrt_checkpoints import load_spynet, load_vrt
from vrtspike.monitoring.timing import section

_RECOMPILE_LIMIT = 64


class VRTSpike(Restorer):
    """VRT whose stages 1-4 are fused with spike features of the same scale.

    The finest spike features also reach the picture directly, by one convolution that starts at
    zero (``readout``): spikes measure the details that the blurry frame lacks, and the spike branch
    learns from the first step on. The gradient through the backbone has to pass layers that start
    at zero.

    An untrained network returns the blurry frames: the last layer of VRT starts at zero, too.

    Args:
        settings: settings of the model.
        bins: voxel bins per frame; 0 for the ablation without spikes, VRT alone.
    """

    not_exportable_reason = (
        "VRT is not exported: PyTorch's ONNX export has no operator for deformable convolutions, "
        "which align frames unless PA_FRAMES is 0; a model of MODEL.TYPE spike_nafnet (presets "
        "light, light_demo) can be exported"
    )

    def __init__(self, settings: ModelSettings, bins: int) -> None:
        super().__init__()
        self.vrt = VRT(settings)
        zero_init(self.vrt.conv_last)
        self.bins = bins
        if not bins:
            return
        widths = settings.VRT.EMBED_DIMS[:NUM_SCALES]
        recompute = settings.VRT.USE_CHECKPOINT_ATTN
        self.spike_encoder = SpikeEncoder(bins, widths)
        self.spike_encoder.recompute = recompute and settings.VRT.USE_CHECKPOINT_FFN
        self.spike_attention = nn.ModuleList(
            TemporalSelfAttention(width, settings.SPIKE_TSA, recompute=recompute)
            for width in widths
        )
        self.fusion = nn.ModuleList(
            TemporalCrossAttention(width, settings.FUSE, recompute=recompute) for width in widths
        )
        self.readout = FrameConv2d(widths[0], 3)
        zero_init(self.readout)

    def load_published(self, settings: ModelSettings) -> None:
        """Load the weights of MODEL.VRT.PRETRAINED and MODEL.VRT.SPYNET.

        The whole model is loaded first; separate weights of the flow then replace its own.
        """
        vrt = settings.VRT
        if vrt.PRETRAINED is not None:
            load_vrt(self.vrt, read_weights(vrt.PRETRAINED), vrt.PRETRAINED)
        if vrt.SPYNET is not None:
            load_spynet(self.vrt, read_weights(vrt.SPYNET), vrt.SPYNET)

    def compile(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as PyTorch's own
        """Compile the blocks, which take most of the time; arguments as of ``torch.compile``.

        All of them are instances of one class, with a graph for each kind: size and width of the
        map, attention, shift of the windows, stochastic depth. Training crops have few sizes;
        Inductor fails on graphs for any size, and PyTorch makes only 8 by default.
        """
        dynamo = torch._dynamo.config
        dynamo.recompile_limit = max(dynamo.recompile_limit, _RECOMPILE_LIMIT)
        for module in self.modules():
            if isinstance(module, TMSABlock):
                module.compile(*args, **{"dynamic": False, **options})

    def describe(self) -> str:
        """Return the model with or without spikes, and the recomputed modules, in one line."""
        name = super().describe()
        if not self.bins:
            name += " without spikes"
        kinds = {type(m).__name__ for m in self.modules() if getattr(m, "recompute", False)}
        return f"{name}; recomputed: {', '.join(sorted(kinds)) or 'none'}"

    def lr_groups(self) -> dict[str, list[str]]:
        """Return the groups ``flow`` (SpyNet and alignment) and ``backbone`` (the rest of VRT).

        Both groups can start from published weights; the spike branch belongs to neither.
        """
        names = [name for name, _ in self.named_parameters() if name.startswith("vrt.")]
        flow = [name for name in names if ".spynet." in name or ".pa_deform." in name]
        return {BACKBONE: [name for name in names if name not in flow], FLOW: flow}

    def forward(self, blur: Tensor, voxels: Tensor | None = None) -> Tensor:
        """Restore a clip, with its spikes if it takes any.

        Args:
            blur: (B, T, 3, H, W) in [0, 1].
            voxels: (B, T, K, h, w), standardised, at the size of the frames or below it; ignored
                without spikes.

        Returns:
            (B, T, 3, H, W), not clamped.

        Raises:
            ValueError: there are no voxels, or their numbers of frames or bins are wrong.
        """
        if not self.bins:
            with section("vrt"):
                return self.vrt(blur)
        voxels = require_voxels(blur, voxels, self.bins)
        spikes = self._encode(repeat_pixels(voxels, *blur.shape[-2:]))
        with section("vrt"):
            restored = self.vrt(blur, lambda scale, x: self.fusion[scale](x, spikes[scale]))
        with section("readout"):
            height, width = blur.shape[-2:]
            detail = self.readout(spikes[0]).permute(0, 1, 4, 2, 3)
            return restored + detail[..., :height, :width]

    def _encode(self, voxels: Tensor) -> list[Tensor]:
        """Spike features of every scale, (B, T, H / s, W / s, C) each."""
        with section("spike_encoder"):
            features = self.spike_encoder(voxels)
        attended = []
        for scale, x in enumerate(features):
            with section(f"spike_attention/scale{scale + 1}"):
                attended.append(self.spike_attention[scale](x))
        return attended
