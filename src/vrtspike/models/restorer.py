"""What training, evaluation and logs ask of a model."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

BACKBONE, FLOW = "backbone", "flow"
"""Groups of parameters that may learn at rates of their own."""


class Restorer(nn.Module):
    """A model of the table: a clip and its voxels in, a restored clip out.

    A model defines :meth:`forward`. What else is asked of it has an answer that serves any model;
    also :meth:`~torch.nn.Module.compile`, which compiles the whole where TRAIN.COMPILE_MODEL is
    set, and may be overridden where shapes change from clip to clip.
    """

    not_exported: ClassVar[str] = ""
    """Why the model cannot be written as ONNX; empty where it can."""

    def forward(self, blur: Tensor, voxels: Tensor | None) -> Tensor:
        """Restore a clip.

        Args:
            blur: (B, T, 3, H, W) in [0, 1]; T, H and W may differ from those of training clips.
            voxels: (B, T, K, h, w), standardised, at the resolution of the spike sensor; None where
                the data set has no spikes.

        Returns:
            (B, T, 3, H, W), not clamped.
        """
        raise NotImplementedError

    def describe(self) -> str:
        """What the model is, in one line for the log of a run."""
        return f"model: {type(self).__name__}"

    def rate_groups(self) -> dict[str, list[str]]:
        """Names of the parameters that do not learn at the rate of new ones.

        Returns:
            those of the ``backbone``, which may start from published weights, and of its ``flow``,
            which may start later, learns more slowly, and has no gradient in clips of one frame.
        """
        return {BACKBONE: [], FLOW: []}


def require_voxels(blur: Tensor, voxels: Tensor | None, bins: int) -> Tensor:
    """The voxels of a clip, (B, T, bins, h, w).

    Raises:
        ValueError: there are none, or not of as many frames and bins as expected.
    """
    expected = (*blur.shape[:2], bins)
    if voxels is None or voxels.shape[:3] != expected:
        found = "none" if voxels is None else str(tuple(voxels.shape))
        raise ValueError(f"expected voxels of shape {expected} + (h, w), got {found}")
    return voxels


def repeat_pixels(voxels: Tensor, height: int, width: int) -> Tensor:
    """Repeat each spike pixel over the pixels of the frame that it covers.

    Args:
        voxels: (B, T, K, h, w).
        height: of the frames; h times a whole number or not.
        width: of the frames.

    Returns:
        (B, T, K, height, width).
    """
    if voxels.shape[-2:] == (height, width):
        return voxels
    larger = functional.interpolate(voxels.flatten(0, 1), (height, width), mode="nearest-exact")
    return larger.unflatten(0, voxels.shape[:2])
