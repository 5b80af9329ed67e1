"""Shuffled spikes (MODEL.SPIKE_ORDER): the control that tests if the time of spikes matters.

Each frame is restored with the spikes of another frame, never with its own. :class:`ShuffledSpikes`
does this to any model; :mod:`vrtspike.data.clips.shuffled_spikes` has the clips that it is trained
on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vrtspike.data.clips.neighbors import mirrored_order
from vrtspike.models.restorer import Restorer, require_neighbors, require_voxels
from vrtspike.system.errors import ConfigError


class ShuffledSpikes(Restorer):
    """A model that gets for each frame the spikes of another one.

    The other frame is any of the clip, or, with ``neighbors``, the one before or after. It is
    drawn from PyTorch's generator in training, and a fixed one in evaluation. Weights are saved
    with the names that they have in the model itself.

    Args:
        model: restores clips with the spikes that it is given.
        bins: voxel bins per frame.
        neighbors: clips come with the spikes of the frames before and after (DATA.NEIGHBOURS).
        one_by_one: give the model each frame as a clip of its own, so that one that also looks at
            the spikes of neighbouring frames has none: they might be those of the frame itself.
    """

    not_exportable_reason = (
        "MODEL.SPIKE_ORDER is shuffled, and a control is not exported: it has no spikes for a clip "
        "of one frame, which an ONNX file has to take"
    )

    def __init__(self, model: Restorer, *, bins: int, neighbors: bool, one_by_one: bool) -> None:
        super().__init__()
        self.model = model
        self.half_precision_weights = model.half_precision_weights
        self.bins = bins
        self.neighbors = neighbors
        self.one_by_one = one_by_one
        self.register_state_dict_post_hook(_remove_prefix)
        self.register_load_state_dict_pre_hook(_add_prefix)

    def forward(self, blur: Tensor, voxels: Tensor | None) -> Tensor:
        """Restore a clip, see :meth:`Restorer.forward`.

        Raises:
            ValueError: there are no voxels, or their numbers of frames or bins are wrong.
            ConfigError: the clip has one frame and no neighbours.
        """
        others = self._other_voxels(blur, voxels)
        if not self.one_by_one:
            restored: Tensor = self.model(blur, others)
            return restored
        frames = blur.flatten(0, 1).unsqueeze(1)
        restored = self.model(frames, others.flatten(0, 1).unsqueeze(1))
        return restored.squeeze(1).unflatten(0, blur.shape[:2])

    def _other_voxels(self, blur: Tensor, voxels: Tensor | None) -> Tensor:
        """Return the voxels of another frame for each frame, (B, T, K, h, w)."""
        if self.neighbors:
            extended = require_neighbors(blur, voxels, self.bins, pad=mirror_ends)
            return take_neighbors(extended, random=self.training)
        clip = require_voxels(blur, voxels, self.bins)
        return shuffle_frames(clip, random=self.training)

    def compile(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as PyTorch's own
        """Compile the model as it compiles itself."""
        self.model.compile(*args, **options)

    def describe(self) -> str:
        """Return the model, and that it is a control, in one line."""
        return f"{self.model.describe()}; with the spikes of other frames"

    def lr_groups(self) -> dict[str, list[str]]:
        """Return the groups of the model."""
        groups = self.model.lr_groups()
        return {group: [f"model.{name}" for name in names] for group, names in groups.items()}


def _remove_prefix(
    module: nn.Module, state: dict[str, Any], prefix: str, metadata: Mapping[str, Any]
) -> None:
    """Name the tensors of a state dictionary as in the model itself; called by PyTorch."""
    inner = f"{prefix}model."
    for name in [name for name in state if name.startswith(inner)]:
        state[prefix + name.removeprefix(inner)] = state.pop(name)


def _add_prefix(module: nn.Module, state: dict[str, Any], prefix: str, *further: object) -> None:
    """Undo :func:`_remove_prefix` in a state dictionary to be loaded; called by PyTorch."""
    for name in [name for name in state if name.startswith(prefix)]:
        state[f"{prefix}model.{name.removeprefix(prefix)}"] = state.pop(name)


def derangements(clips: int, frames: int, *, random: bool) -> Tensor:
    """Return a permutation of the frames of each clip in which no frame keeps its place.

    The frames of a clip form a ring, and each takes the one before it, so that none takes itself.
    A random ring is drawn for each clip from PyTorch's generator of the CPU, which is the same on
    every device. The fixed order moves all frames by half a clip: as in random rings, most spikes
    come from beyond the neighbours.

    Args:
        clips: B.
        frames: T.
        random: draw the rings.

    Returns:
        (B, T) int64 on the CPU, frame numbers from 0 to T - 1.

    Raises:
        ConfigError: a clip of one frame has no other.
    """
    _require_another_frame(frames)
    if not random:
        return torch.arange(frames).roll(frames // 2).expand(clips, frames)
    ring = torch.rand(clips, frames).argsort(dim=1)
    return torch.empty_like(ring).scatter_(1, ring, ring.roll(1, dims=1))


def shuffle_frames(voxels: Tensor, *, random: bool) -> Tensor:
    """Give each frame the voxels of another frame of its clip.

    Args:
        voxels: (B, T, K, h, w).
        random: draw the order, see :func:`derangements`.

    Returns:
        (B, T, K, h, w).

    Raises:
        ConfigError: the clips have one frame.
    """
    clips, frames = voxels.shape[:2]
    order = derangements(clips, frames, random=random).to(voxels.device)
    return voxels[torch.arange(clips, device=voxels.device)[:, None], order]


def take_neighbors(voxels: Tensor, *, random: bool) -> Tensor:
    """Give each frame the voxels of the frame before or after it.

    With a fixed choice, a model could learn the offset and recover the frame's motion from these
    spikes. The choice is therefore drawn for each frame, from PyTorch's generator of the CPU.

    Args:
        voxels: (B, T + 2, K, h, w), with the frames before and after the clip.
        random: draw the choice; else the frame before.

    Returns:
        (B, T, K, h, w).
    """
    before = voxels[:, :-2]
    after = voxels[:, 2:]
    if not random:
        return before
    is_before = torch.rand(before.shape[:2]) < 0.5
    return torch.where(is_before[..., None, None, None].to(voxels.device), before, after)


def mirror_ends(voxels: Tensor) -> Tensor:
    """Add frames at both ends of clips, see :func:`mirrored_order`.

    Args:
        voxels: (B, T, K, h, w).

    Returns:
        (B, T + 2, K, h, w).

    Raises:
        ConfigError: the clips have one frame.
    """
    frames = voxels.shape[1]
    _require_another_frame(frames)
    order = mirrored_order(frames + 2, before=False, after=False)
    return voxels[:, [place - 1 for place in order]]


def _require_another_frame(frames: int) -> None:
    """Reject clips of one frame.

    Raises:
        ConfigError: with the remedy.
    """
    if frames == 1:
        raise ConfigError(
            "MODEL.SPIKE_ORDER is shuffled: found a clip of 1 frame, expected 2 or more, so that "
            "each frame can be given the spikes of another; restore longer clips (more frames in "
            "a sequence and in TEST.TILE.FRAMES)"
        )
