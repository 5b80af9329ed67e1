"""The interface of a model for training, evaluation and logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring_settings.model import ModelSettings

BACKBONE = "backbone"
FLOW = "flow"
"""Groups of parameters with learning rates of their own."""


class Restorer(nn.Module):
    """A model of the registry: a clip and its voxels in, a restored clip out.

    A model is made from the section MODEL and the number of voxel bins, see
    :data:`vrtspike.models.registry.MODELS`, and defines :meth:`forward`. The other methods have
    defaults that suit any model.
    """

    not_exportable_reason: ClassVar[str] = ""
    """The reason that the model cannot be exported as ONNX; empty if it can."""

    half_precision_weights: bool = False
    """True if the model trains with all of its parameters in bfloat16 for ``bf16-mixed``
    (:class:`vrtspike.training.half_precision_weights.HalfPrecisionWeights`)."""

    def forward(self, blur: Tensor, voxels: Tensor | None) -> Tensor:
        """Restore a clip.

        Args:
            blur: (B, T, 3, H, W) in [0, 1]; T, H and W may differ from those of training clips.
            voxels: (B, T, K, h, w), standardised, at the resolution of the spike sensor; with
                DATA.NEIGHBOURS (B, T + 2, K, h, w), one more frame on either side; None if the
                data set has no spikes.

        Returns:
            (B, T, 3, H, W), not clamped.
        """
        raise NotImplementedError

    def load_published(self, settings: ModelSettings) -> None:
        """Load published weights that keys of MODEL name; by default there are no such keys.

        Raises:
            RunError: if a file is missing or belongs to another model.
        """

    def compile(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as PyTorch's own
        """Compile the model for TRAIN.COMPILE_MODEL; arguments as of ``torch.compile``.

        The default is one graph of the whole model for each size of training crops. Clips of other
        sizes, in validation and restoration, are not compiled.
        """
        super().compile(*args, **{"dynamic": False, **options})

    def describe(self) -> str:
        """Return the model in one line, for the log of a run."""
        return f"model: {type(self).__name__}"

    def lr_groups(self) -> dict[str, list[str]]:
        """Return names of the parameters that do not learn at the rate of new ones.

        Returns:
            those of the ``backbone``, which may start from published weights, and of its ``flow``,
            which may be trained later and more slowly, and has no gradient in clips of one frame. A
            model may leave out a group.
        """
        return {BACKBONE: [], FLOW: []}


def require_voxels(blur: Tensor, voxels: Tensor | None, bins: int) -> Tensor:
    """Return the voxels of a clip, (B, T, bins, h, w).

    Raises:
        ValueError: there are none, or their numbers of frames or bins are wrong.
    """
    expected = (*blur.shape[:2], bins)
    if voxels is None or voxels.shape[:3] != expected:
        shape = "none" if voxels is None else str(tuple(voxels.shape))
        raise ValueError(f"expected voxels of shape {expected} + (h, w), got {shape}")
    return voxels


def require_neighbors(
    blur: Tensor, voxels: Tensor | None, bins: int, pad: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return the voxels of a clip and of the frames before and after it, (B, T + 2, bins, h, w).

    Args:
        blur: (B, T, 3, H, W).
        voxels: those of T + 2 frames, or of the clip alone.
        bins: K.
        pad: adds a frame at either end to voxels of the clip alone.

    Raises:
        ValueError: there are no voxels, or their numbers of frames or bins are wrong.
    """
    if voxels is None or voxels.shape[1] == blur.shape[1]:
        return pad(require_voxels(blur, voxels, bins))
    require_voxels(blur, voxels[:, 1:-1], bins)
    return voxels


def repeat_pixels(voxels: Tensor, height: int, width: int) -> Tensor:
    """Repeat each spike pixel over the pixels of the frame that it covers.

    Args:
        voxels: (B, T, K, h, w).
        height: height of the frames; need not be a multiple of h.
        width: width of the frames.

    Returns:
        (B, T, K, height, width).
    """
    if voxels.shape[-2:] == (height, width):
        return voxels
    larger = functional.interpolate(voxels.flatten(0, 1), (height, width), mode="nearest-exact")
    return larger.unflatten(0, voxels.shape[:2])
