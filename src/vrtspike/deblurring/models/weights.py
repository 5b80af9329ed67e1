"""Published checkpoints: reading them, loading them strictly, and writing their form.

Our parameter names are the published ones. Published checkpoints also carry, for every attention,
buffers that are pure functions of the configuration (the relative position index and the sine
position bias); ours do not, so they are checked and left out here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor, nn

from vrtspike.errors import RunError, list_faults
from vrtspike.deblurring.models.tmsa import WindowAttention
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.windows import relative_position_index

_DERIVED = (".attn.relative_position_index", ".attn.position_bias")
_WRAPPERS = ("params_ema", "params", "state_dict")
_LISTED = 12
_UNREADABLE = (
    *(UnpicklingError, struct.error, EOFError, OSError),
    *(RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError),
)
"""What PyTorch raises for files that are damaged or of another kind: before it wrote archives, it
wrote pickles, whose reader takes any bytes for instructions."""
_AGAIN = "Copy or fetch it again; if it is a run's result, delete it and train again."


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint by name, without the ``module.`` of a parallel wrapper.

    Args:
        path: a safetensors file, or a PyTorch file that holds a state dictionary, alone or under
            ``params_ema``, ``params`` or ``state_dict``. Nothing but tensors is unpickled.

    Raises:
        RunError: no such file, a damaged one or one of another kind, or no state dictionary in it.
    """
    file = Path(path)
    if not file.is_file():
        found = "a folder, no file of weights" if file.is_dir() else "no such checkpoint"
        raise RunError(f"{file}: {found}; give the path of a file that exists")
    state = _read_safetensors(file) if file.suffix == ".safetensors" else _read_pytorch(file)
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}


def _read_safetensors(file: Path) -> Mapping[str, Tensor]:
    # Imported here: a model without given weights is made by PyTorch alone.
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except SafetensorError as error:
        raise RunError(
            f"{file}: not a whole safetensors file ({error}); it is damaged or of another kind. "
            f"{_AGAIN}"
        ) from error


def _read_pytorch(file: Path) -> Mapping[str, Tensor]:
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        raise RunError(
            f"{file}: not a whole PyTorch file of tensors ({type(error).__name__}); it is damaged "
            f"or of another kind. {_AGAIN}"
        ) from error
    for name in _WRAPPERS:
        if isinstance(state, Mapping) and isinstance(state.get(name), Mapping):
            state = state[name]
            break
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        raise RunError(
            f"{file}: found no state dictionary; expected names and tensors, alone or under one of "
            f"{', '.join(_WRAPPERS)}"
        )
    return state


def published_buffers(vrt: VRT) -> dict[str, Tensor]:
    """The buffers a published checkpoint holds beyond our parameters, by name."""
    buffers = {}
    for name, module in vrt.named_modules():
        if isinstance(module, WindowAttention):
            buffers[f"{name}.relative_position_index"] = relative_position_index(module.window)
            if module.mutual:
                buffers[f"{name}.position_bias"] = module.position_bias
    return buffers


def published_state_dict(vrt: VRT) -> dict[str, Tensor]:
    """The model's state as a published checkpoint names and shapes it."""
    return {**vrt.state_dict(), **published_buffers(vrt)}


def depths_of(state: Mapping[str, Tensor]) -> list[int]:
    """Number of blocks of stages 1-7 and of each group of stage 8 that a state dictionary holds."""
    blocks: dict[str, set[str]] = {}
    for name in state:
        if found := re.match(r"(stage8\.\d+|stage\d)\.(residual_group\d?\.blocks\.\d+)\.", name):
            blocks.setdefault(found[1], set()).add(found[2])
    return [len(blocks[stage]) for stage in sorted(blocks)]


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
    own = vrt.state_dict()
    parameters = {name: t for name, t in state.items() if not name.endswith(_DERIVED)}
    faults = _misfits(parameters, own)
    for name, tensor in state.items():
        if name.endswith(_DERIVED) and name in derived and not _same(tensor, derived[name]):
            faults.append(f"{name}: belongs to another window")
    if faults:
        found, expected = depths_of(state), depths_of(own)
        if found != expected:
            faults.insert(0, f"depths: the checkpoint has {found}, the model {expected}")
        advice = "Give the model the checkpoint's depths, widths, heads and window."
        title = f"{source}: weights of another model"
        raise RunError(list_faults(title, faults, advice, limit=_LISTED))
    vrt.load_state_dict(parameters, strict=True)


def load_trained(model: nn.Module, path: str | Path) -> None:
    """Load the weights of a trained model, every entry or none.

    Args:
        model: built with the settings that it was trained with, changed in place.
        path: ``weights.safetensors`` of a run.

    Raises:
        RunError: the file is missing or damaged, or an entry is missing, unknown or of another
            shape.
    """
    state = read_weights(path)
    faults = _misfits(state, model.state_dict())
    if faults:
        advice = "Weights go with the settings.json that lies beside them."
        title = f"{path}: weights of another model"
        raise RunError(list_faults(title, faults, advice, limit=_LISTED))
    model.load_state_dict(state, strict=True)


def _misfits(found: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> list[str]:
    """What keeps the tensors of a file from being those of a model."""
    faults = [f"{name}: missing" for name in own if name not in found]
    faults += [f"{name}: not in this model" for name in found if name not in own]
    for name, tensor in found.items():
        expected = own.get(name, tensor)
        if tensor.shape != expected.shape:
            faults.append(f"{name}: shape {tuple(tensor.shape)}, expected {tuple(expected.shape)}")
        elif tensor.is_floating_point() != expected.is_floating_point():
            faults.append(f"{name}: numbers of {tensor.dtype}, expected {expected.dtype}")
    return faults


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
    if not vrt.pa_frames:
        raise RunError(f"{source}: flow weights for a model without flow; set PA_FRAMES: 2")
    found = {name.removeprefix("spynet."): tensor for name, tensor in state.items()}
    expected = vrt.spynet.state_dict()
    whole = {"mean": expected["mean"], "std": expected["std"], **found}
    faults = [
        f"{name}: missing, unknown or of another shape"
        for name in sorted(whole.keys() | expected.keys())
        if name not in whole or name not in expected or whole[name].shape != expected[name].shape
    ]
    if faults:
        advice = "Give a checkpoint of SpyNet alone: basic_module.0 to basic_module.5."
        title = f"{source}: not SpyNet's weights"
        raise RunError(list_faults(title, faults, advice, limit=_LISTED))
    vrt.spynet.load_state_dict(whole, strict=True)
