"""VRT with a spike branch, and VRT alone behind the same call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.layers import FrameConv, start_at_zero
from vrtspike.deblurring.models.restorer import Restorer, repeat_pixels, require_voxels
from vrtspike.deblurring.models.spike_encoder import SpikeEncoder3D
from vrtspike.deblurring.models.spike_order import shuffle_frames
from vrtspike.deblurring.models.temporal_attention import SpikeTemporalSA, TemporalCrossAttn
from vrtspike.deblurring.models.tmsa import TMSABlock
from vrtspike.deblurring.models.vrt import SCALES, VRT
from vrtspike.deblurring.models.weights import load_spynet, load_vrt
from vrtspike.io.weights import read_weights
from vrtspike.monitoring.timing import section

if TYPE_CHECKING:
    from vrtspike.deblurring.settings import Settings
    from vrtspike.deblurring.settings.model import ModelSettings

_RECOMPILE_LIMIT = 64


class VRTRestorer(Restorer):
    """VRT behind the call of a model, with or without spikes.

    Args:
        vrt: the backbone.
    """

    not_exported = (
        "VRT aligns frames by deformable convolutions, for which PyTorch's export to ONNX has no "
        "operator; a model of MODEL.TYPE spike_nafnet (presets light, light_demo) can be exported"
    )

    def __init__(self, vrt: VRT) -> None:
        super().__init__()
        self.vrt = vrt

    def compile(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as PyTorch's own
        """Compile the blocks, where the time goes; arguments as of ``torch.compile``.

        All of them are instances of one class. They differ in width, kind of attention and clipped
        windows: about a dozen kinds, of which PyTorch would compile 8 and leave the rest as it is.
        """
        torch._dynamo.config.recompile_limit = max(
            torch._dynamo.config.recompile_limit, _RECOMPILE_LIMIT
        )
        for module in self.modules():
            if isinstance(module, TMSABlock):
                # Sizes differ between scales; dynamic graphs serve all of them.
                module.compile(*args, **{"dynamic": True, **options})

    def describe(self) -> str:
        """What is recomputed in the backward pass, in one line."""
        kinds = {type(m).__name__ for m in self.modules() if getattr(m, "checkpoint", False)}
        return f"{super().describe()}; checkpoints: {', '.join(sorted(kinds)) or 'none'}"

    def rate_groups(self) -> dict[str, list[str]]:
        """SpyNet and alignment are ``flow``, the rest of VRT is the ``backbone``.

        These can start from published weights; a spike branch belongs to neither.
        """
        groups: dict[str, list[str]] = {"backbone": [], "flow": []}
        for name, _ in self.named_parameters():
            if name.startswith("vrt.spynet.") or ".pa_deform." in name:
                groups["flow"].append(name)
            elif name.startswith("vrt."):
                groups["backbone"].append(name)
        return groups


class PlainVRT(VRTRestorer):
    """VRT without spikes; it takes voxels and ignores them."""

    def forward(self, blur: Tensor, voxels: Tensor | None = None) -> Tensor:
        """Restore a clip.

        Args:
            blur: (B, T, 3, H, W) in [0, 1].
            voxels: ignored, so that the ablation is called as the model it is compared with.

        Returns:
            (B, T, 3, H, W), not clamped.
        """
        with section("vrt"):
            return self.vrt(blur)


class VRTSpike(VRTRestorer):
    """VRT whose stages 1-4 are fused with spike features of the same scale.

    The finest spike features also reach the picture directly, by one convolution that starts at
    zero (``readout``): spikes measure what is missing in the blurry frame, and the spike branch
    learns from the first step on, while the gradient by way of the backbone has to pass the layers
    that start at zero there.

    Args:
        vrt: the backbone.
        settings: those of the spike branch and of its fusion. With SPIKE_ORDER ``shuffled``, the
            control, each frame gets the spikes of another frame of its clip: in training in a
            random order, which PyTorch's seed decides, else in a fixed one.
        bins: voxel bins per frame.
    """

    def __init__(self, vrt: VRT, settings: ModelSettings, *, bins: int) -> None:
        super().__init__(vrt)
        widths = vrt.settings.EMBED_DIMS[:SCALES]
        checkpoint = vrt.settings.USE_CHECKPOINT_ATTN
        self.bins = bins
        self.shuffled = settings.SPIKE_ORDER == "shuffled"
        self.spike_encoder = SpikeEncoder3D(bins, widths)
        self.spike_encoder.checkpoint = checkpoint and vrt.settings.USE_CHECKPOINT_FFN
        self.spike_attention = nn.ModuleList(
            SpikeTemporalSA(width, settings.SPIKE_TSA, checkpoint=checkpoint) for width in widths
        )
        self.fusion = nn.ModuleList(
            TemporalCrossAttn(width, settings.FUSE, checkpoint=checkpoint) for width in widths
        )
        self.readout = FrameConv(widths[0], 3)
        start_at_zero(self.readout)

    def forward(self, blur: Tensor, voxels: Tensor | None) -> Tensor:
        """Restore a clip with its spikes.

        Args:
            blur: (B, T, 3, H, W) in [0, 1].
            voxels: (B, T, K, h, w), standardised, at the size of the frames or below it.

        Returns:
            (B, T, 3, H, W), not clamped.

        Raises:
            ValueError: there are no voxels, or not of as many frames and bins as expected.
            ConfigError: spikes are to be shuffled in clips of one frame.
        """
        voxels = require_voxels(blur, voxels, self.bins)
        if self.shuffled:
            voxels = shuffle_frames(voxels, random=self.training)
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
        for number, (attention, x) in enumerate(
            zip(self.spike_attention, features, strict=True), start=1
        ):
            with section(f"spike_attention/scale{number}"):
                attended.append(attention(x))
        return attended


def build_vrt_spike(settings: Settings, pretrained: bool) -> VRTRestorer:
    """Build a :class:`VRTSpike`, or a :class:`PlainVRT` where MODEL.USE_SPIKE is false.

    It starts from MODEL.VRT.PRETRAINED and MODEL.VRT.SPYNET where ``pretrained`` is set.
    """
    model = settings.MODEL
    vrt = VRT(model)
    # An untrained network returns its input: training starts at the blurry frame's PSNR.
    start_at_zero(vrt.conv_last)
    if pretrained:
        # The whole model first: weights of the flow given on their own win.
        if model.VRT.PRETRAINED is not None:
            load_vrt(vrt, read_weights(model.VRT.PRETRAINED), model.VRT.PRETRAINED)
        if model.VRT.SPYNET is not None:
            load_spynet(vrt, read_weights(model.VRT.SPYNET), model.VRT.SPYNET)
    if not model.USE_SPIKE:
        return PlainVRT(vrt)
    return VRTSpike(vrt, model, bins=settings.DATA.NUM_VOXEL_BINS)
