"""Published checkpoints of VRT and of its flow, loaded strictly.

Parameters have their published names. Published checkpoints also hold, for every attention, buffers
that are pure functions of the configuration (the relative position index and the sine position
bias); those of this project do not, so the buffers are checked and left out here.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from vrtspike.io.weights import load_strictly
from vrtspike.models.attention import WindowAttention, relative_position_index
from vrtspike.models.vrt import VRT
from vrtspike.system.errors import RunError

_DERIVED = (".attn.relative_position_index", ".attn.position_bias")


def published_buffers(vrt: VRT) -> dict[str, Tensor]:
    """Return the buffers of a published checkpoint, which are not parameters, by name."""
    buffers = {}
    for name, module in vrt.named_modules():
        if isinstance(module, WindowAttention):
            buffers[f"{name}.relative_position_index"] = relative_position_index(module.window)
            if module.mutual:
                buffers[f"{name}.position_bias"] = module.position_bias
    return buffers


def load_vrt(vrt: VRT, state: Mapping[str, Tensor], source: str) -> None:
    """Load a published (or our own) state dictionary of VRT, every entry or none.

    Args:
        vrt: the model, changed in place.
        state: names and tensors.
        source: their file, for messages.

    Raises:
        RunError: an entry is missing, unknown or of another shape, or a buffer that follows from
            the configuration has other values, so that the weights belong to another model.
    """
    buffers = published_buffers(vrt)
    parameters = {}
    faults = []
    for name, tensor in state.items():
        if not name.endswith(_DERIVED):
            parameters[name] = tensor
        if name in buffers and not _is_equal(tensor, buffers[name]):
            faults.append(f"{name}: belongs to another window")
    advice = "Give the model the checkpoint's depths, widths, heads and window."
    load_strictly(vrt, parameters, f"{source}: weights of another model", advice, faults)


def _is_equal(buffer: Tensor, expected: Tensor) -> bool:
    """Return True if a buffer has the expected values, apart from rounding."""
    if buffer.shape != expected.shape:
        return False
    return torch.allclose(buffer.float(), expected.float().cpu(), atol=1e-4)


def load_spynet(vrt: VRT, state: Mapping[str, Tensor], source: str) -> None:
    """Load SpyNet's weights alone.

    Args:
        vrt: the model, changed in place.
        state: SpyNet's names, with or without the prefix ``spynet.``; the mean and the standard
            deviation of the input may be missing, because they are constants.
        source: their file, for messages.

    Raises:
        RunError: an entry is missing, unknown or of another shape.
    """
    if not vrt.settings.PA_FRAMES:
        raise RunError(f"{source}: flow weights for a model without flow; set PA_FRAMES: 2")
    constants = {"mean": vrt.spynet.mean, "std": vrt.spynet.std}
    weights = {name.removeprefix("spynet."): tensor for name, tensor in state.items()}
    whole = constants | weights
    advice = "Give a checkpoint of SpyNet alone: basic_module.0 to basic_module.5."
    load_strictly(vrt.spynet, whole, f"{source}: not SpyNet's weights", advice)
