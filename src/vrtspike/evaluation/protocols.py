"""Protocols of measurement of published results, as plain data.

Results of two protocols cannot be compared: blurry frames, tiles, rounding, SSIM and means differ.
Details that neither a paper nor its authors' programs give are those of ``own``, and are listed in
``unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from vrtspike.config.tasks import DEFAULT_PROTOCOL
from vrtspike.data.rgb_images import PEAK, studio_luma, to_uint8
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.evaluation import ProtocolName
from vrtspike.metrics.lpips import LPIPS
from vrtspike.metrics.metric import FrameValues, ImageMetric
from vrtspike.metrics.psnr import PSNR, psnr_of_values
from vrtspike.metrics.registry import METRICS
from vrtspike.metrics.ssim import SSIM, ssim_3d, ssim_of_values, ssim_uniform
from vrtspike.restoration.inference.tiling import Tiling, tiling_for
from vrtspike.system.errors import ConfigError

MeanUnit = Literal["frames", "sequences"]
"""The units of equal weight in the mean of a test set."""

SsimName = Literal["channels", "y", "3d", "scikit-image"]

SSIMS: Mapping[SsimName, tuple[Callable[[FrameValues, FrameValues], float], str]] = {
    "channels": (ssim_of_values, "per RGB channel, 11x11 Gaussian window, valid region"),
    "y": (
        lambda a, b: ssim_of_values(studio_luma(a), studio_luma(b)),
        "on Y (BT.601, studio range), 11x11 Gaussian window, valid region",
    ),
    "3d": (
        ssim_3d,
        "as MATLAB's ssim on an RGB volume: 11x11x11 Gaussian window over height, width and "
        "channel, replicated borders",
    ),
    "scikit-image": (
        lambda a, b: ssim_uniform(a - PEAK / 2, b - PEAK / 2),
        "as scikit-image by default on [-1, 1]: per RGB channel, 7x7 uniform window, sample "
        "covariance, range 2, valid region",
    ),
}
"""Function and definition of each kind of SSIM."""


class FixedTiling(TypedDict, total=False):
    """Fields of :class:`Tiling` that a protocol gives; TEST.TILE gives the others."""

    size: int
    overlap: int
    frames: int
    frames_overlap: int
    fading: bool


@dataclass(frozen=True)
class EvaluationProtocol:
    """A protocol of measurement.

    Attributes:
        name: name in TEST.PROTOCOL.
        source: page or publication that describes it.
        blur_dir: folder of the blurry frames; None takes those of the data set.
        tile: fixed fields of the tiling.
        rounded: round restored frames to 8 bits.
        clipped: clip restored frames to [0, 1].
        ssim: kind of SSIM.
        mean: units of equal weight in the mean of a test set.
        lpips: measure LPIPS; false if the authors' programs do not.
        unknown: unknown details of a result under this protocol.
    """

    name: ProtocolName
    source: str
    blur_dir: Literal["blur", "blur_gamma"] | None = None
    tile: FixedTiling = field(default_factory=FixedTiling, hash=False)
    rounded: bool = True
    clipped: bool = True
    ssim: SsimName = "channels"
    mean: MeanUnit = "frames"
    lpips: bool = False
    unknown: str = ""

    def tiling(self, settings: DeblurringSettings) -> Tiling:
        """Return the tiling of clips, with TEST.TILE for fields that the protocol does not give."""
        return replace(tiling_for(settings), **self.tile)

    def image(self, frame: NDArray[np.float32]) -> FrameValues:
        """Convert a restored frame for measurement.

        Args:
            frame: (3, H, W), finite, nominally in [0, 1].

        Returns:
            (H, W, 3) on the scale of 0 to 255.
        """
        if self.rounded:
            return to_uint8(torch.from_numpy(frame))
        values = np.ascontiguousarray(frame.transpose(1, 2, 0))
        scaled = values.astype(np.float64) * PEAK
        if self.clipped:
            return scaled.clip(0, PEAK)
        return scaled

    def metrics(self, names: Sequence[str]) -> list[ImageMetric]:
        """Return the metrics of TEST.METRICS that the protocol defines.

        A published protocol defines PSNR, SSIM and perhaps LPIPS.

        Raises:
            ConfigError: if there are none.
        """
        if self.name == DEFAULT_PROTOCOL:
            return [METRICS[name] for name in names]
        metrics: list[ImageMetric] = []
        frames = "8-bit RGB" if self.rounded else "RGB in float, not rounded"
        if not self.clipped:
            frames += ", not clipped"
        suffix = f"protocol {self.name}; mean over all {self.mean}"
        if PSNR.name in names:
            text = f"PSNR in dB per frame on {frames}; {suffix}"
            metrics.append(replace(PSNR, definition=text, score=psnr_of_values))
        if SSIM.name in names:
            score, kind = SSIMS[self.ssim]
            text = f"SSIM per frame, {kind}; {suffix}"
            metrics.append(replace(SSIM, definition=text, score=score))
        if LPIPS.name in names and self.lpips:
            text = f"LPIPS 0.1 with the AlexNet backbone per frame on {frames}; {suffix}"
            metrics.append(replace(LPIPS, definition=text))
        if not metrics:
            raise ConfigError(
                f"TEST.PROTOCOL names {self.name}, which defines psnr and ssim; TEST.METRICS has "
                f"neither (found {', '.join(names)}): add one"
            )
        return metrics

    def require_blur(self, blur_dir: str, data: str) -> None:
        """Reject blurry frames of another kind.

        Raises:
            ConfigError: naming the protocol and the data set.
        """
        if self.blur_dir not in (None, blur_dir):
            raise ConfigError(
                f"TEST.PROTOCOL names {self.name}, whose blurry frames are those of "
                f"{self.blur_dir!r}; {data} was made of {blur_dir!r}. Evaluate a preset with "
                f"DATA.BLUR_DIR: {self.blur_dir}, or leave {self.name} out"
            )


WHOLE_FRAMES: FixedTiling = {"size": 0, "overlap": 0, "fading": False}

PROTOCOLS: dict[ProtocolName, EvaluationProtocol] = {
    protocol.name: protocol
    for protocol in (
        EvaluationProtocol(DEFAULT_PROTOCOL, "docs/metrics.md", mean="sequences", lpips=True),
        EvaluationProtocol(
            "vrt",
            "Liang et al., VRT: A Video Restoration Transformer, IEEE TIP 2024",
            blur_dir="blur",
            tile={"size": 192, "overlap": 20, "frames": 18, "frames_overlap": 2, "fading": False},
            ssim="3d",
        ),
        EvaluationProtocol(
            "basicsr",
            "Chen et al., Simple Baselines for Image Restoration (NAFNet), ECCV 2022, as in its "
            "copy of BasicSR",
            blur_dir="blur",
            tile=WHOLE_FRAMES,
            ssim="3d",
        ),
        EvaluationProtocol(
            "spkdeblurnet",
            "Chen et al., Enhancing Motion Deblurring in High-Speed Scenes with Spike Streams, "
            "NeurIPS 2023",
            blur_dir="blur_gamma",
            tile=WHOLE_FRAMES,
            rounded=False,
            clipped=False,
            ssim="y",
            unknown="temporal windows, for it restores single frames; its module of metrics: one "
            "of that name in another repository of the same owner was read",
        ),
        EvaluationProtocol(
            "ssdm",
            "Chen et al., SpikeReveal: Unlocking Temporal Sequences from Real Blurry Inputs with "
            "Spike Streams, NeurIPS 2024",
            tile=WHOLE_FRAMES,
            rounded=False,
            ssim="scikit-image",
            lpips=True,
            unknown="temporal windows, for it restores single frames; whether the blurry frames "
            "are means of 97 interpolated ones as there, which no folder's name tells",
        ),
    )
}
"""By name. PSNR on [-1, 1] with a range of 2 (``ssdm``) equals PSNR on [0, 255] with one of 255.
SSIM does not, because it compares means, too."""
