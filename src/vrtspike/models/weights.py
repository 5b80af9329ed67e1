"""Published checkpoints of VRT and of its flow, loaded strictly.

Our parameter names are the published ones. Published checkpoints also carry, for every attention,
buffers that are pure functions of the configuration (the relative position index and the sine
position bias); ours do not, so they are checked and left out here.
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
    """The buffers a published checkpoint holds beyond our parameters, by name."""
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
        source: where they come from, for messages.

    Raises:
        RunError: an entry is missing, unknown or of another shape, or a buffer that follows from
            the configuration has other values, so that the weights belong to another model.
    """
    derived = published_buffers(vrt)
    parameters = {name: t for name, t in state.items() if not name.endswith(_DERIVED)}
    more = [
        f"{name}: belongs to another window"
        for name, tensor in state.items()
        if name in derived and not _same(tensor, derived[name])
    ]
    advice = "Give the model the checkpoint's depths, widths, heads and window."
    load_strictly(vrt, parameters, f"{source}: weights of another model", advice, more)


def _same(found: Tensor, expected: Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    return torch.allclose(found.float(), expected.float().cpu(), atol=1e-4)


def load_spynet(vrt: VRT, state: Mapping[str, Tensor], source: str) -> None:
    """Load SpyNet's weights alone.

    Args:
        vrt: the model, changed in place.
        state: SpyNet's names, with or without the prefix ``spynet.``; the mean and the standard
            deviation of the input may be missing, because they are constants.
        source: where the weights come from, for messages.

    Raises:
        RunError: an entry is missing, unknown or of another shape.
    """
    if not vrt.settings.PA_FRAMES:
        raise RunError(f"{source}: flow weights for a model without flow; set PA_FRAMES: 2")
    found = {name.removeprefix("spynet."): tensor for name, tensor in state.items()}
    whole = {"mean": vrt.spynet.mean, "std": vrt.spynet.std, **found}
    advice = "Give a checkpoint of SpyNet alone: basic_module.0 to basic_module.5."
    load_strictly(vrt.spynet, whole, f"{source}: not SpyNet's weights", advice)
