"""Reading files of weights, and loading them into a model."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor, nn

from vrtspike.io.files import atomic_path, placeholder_fault
from vrtspike.system.errors import RunError, list_faults

_WRAPPERS = ("params_ema", "params", "state_dict", "model_state_dict", "model", "weights")
_LISTED = 12
_SHOWN = 200
"""Maximum number of characters of names shown for a file without state dictionary."""
_MORE = re.compile(r"GLOBAL (\S+\.\S+)|(?=TorchScript archives)")
"""PyTorch's messages on files with Python objects, or with a TorchScript program."""
UNREADABLE = (
    UnpicklingError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
)
"""Errors of PyTorch for damaged files and files of another kind; older files are pickles, whose
reader may raise any of them."""
_MAX_HALF = torch.finfo(torch.float16).max
_AGAIN = "Copy or fetch it again; if it is a run's result, delete it and train again."


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint by name, without the ``module.`` of a parallel wrapper.

    Args:
        path: a safetensors file, or a PyTorch file that holds a state dictionary, alone or under
            ``params_ema``, ``params``, ``state_dict``, ``model_state_dict``, ``model`` or
            ``weights``. No code in it is run.

    Raises:
        RunError: if the file is missing, damaged, of another kind, contains more than tensors or no
            state dictionary, or a value is NaN or infinite.
    """
    file = Path(path)
    if not file.is_file():
        reason = "a folder, no file of weights" if file.is_dir() else "no such checkpoint"
        raise RunError(f"{file}: {reason}; give the path of a file that exists")
    fault = placeholder_fault(file)
    if fault:
        raise RunError(f"{file}: {fault}")
    read = _read_safetensors if file.suffix == ".safetensors" else _read_pytorch
    state = read(file)
    _require_finite(file, state)
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}


def _require_finite(file: Path, state: Mapping[str, Tensor]) -> None:
    """Reject NaN and infinity."""
    bad = [
        f"{name}: {int((~tensor.isfinite()).sum())} of {tensor.numel()} values"
        for name, tensor in state.items()
        if not tensor.isfinite().all()
    ]
    if bad:
        title = f"{file}: weights that are NaN or infinite"
        raise RunError(list_faults(title, bad, _AGAIN, limit=_LISTED))


def _read_safetensors(file: Path) -> Mapping[str, Tensor]:
    # Imported here, so that models without weights need only PyTorch.
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
    except UNREADABLE as error:
        more = _MORE.search(str(error))
        if more is not None:
            kind = more[1] or "a TorchScript program"
            raise RunError(
                f"{file}: found more than tensors ({kind}), which could run code when it is read; "
                "if you trust it, read it with torch.load(path, weights_only=False), write its "
                "state dictionary with torch.save, and give the new file"
            ) from error
        raise RunError(
            f"{file}: not a whole PyTorch file of tensors ({type(error).__name__}); it is damaged "
            f"or of another kind. {_AGAIN}"
        ) from error
    state = _unwrap(state)
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        names = ", ".join(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise RunError(
            f"{file}: found no state dictionary, but {names[:_SHOWN]}; expected names and tensors, "
            f"alone or under one of {', '.join(_WRAPPERS)}"
        )
    return state


def _unwrap(contents: object) -> object:
    """Return the mapping under the first of :data:`_WRAPPERS`, or the contents themselves."""
    if isinstance(contents, Mapping):
        for name in _WRAPPERS:
            if isinstance(contents.get(name), Mapping):
                return contents[name]
    return contents


def floating_type(path: str | Path) -> str:
    """Return the types of the floating-point numbers in a file, such as ``float32``.

    Raises:
        RunError: as :func:`read_weights`.
    """
    tensors = read_weights(path).values()
    types = {str(tensor.dtype) for tensor in tensors if tensor.is_floating_point()}
    return ", ".join(sorted(name.removeprefix("torch.") for name in types))


def write_half(source: Path, target: Path) -> None:
    """Write floating-point numbers in half precision (float16), which loading widens again.

    Magnitudes below 6e-8 become 0; integers are unchanged.

    Args:
        source: a safetensors file.
        target: safetensors file to write, with the same metadata.

    Raises:
        RunError: if the file is missing or damaged, or a value is too large for float16.
    """
    from safetensors import safe_open
    from safetensors.torch import save_file

    state = read_weights(source)
    halves = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in state.items()
    }
    faults = [
        f"{name}: largest magnitude {state[name].abs().max():.6g}, expected at most {_MAX_HALF:g}"
        for name, tensor in halves.items()
        if not tensor.isfinite().all()
    ]
    if faults:
        title = f"{source}: weights too large for half precision"
        raise RunError(list_faults(title, faults, "Keep the precision they have.", limit=_LISTED))
    with safe_open(source, framework="pt") as opened:
        metadata = opened.metadata()
    # Written alone, the file could be read by its owner only.
    with atomic_path(target) as temporary:
        save_file(halves, temporary, metadata=metadata)


def load_trained_weights(model: nn.Module, path: str | Path) -> None:
    """Load the weights of a trained model.

    Args:
        model: model built with the settings of its training; changed in place.
        path: ``weights.safetensors`` of a run.

    Raises:
        RunError: if the file is missing or damaged, or a tensor is missing, unknown or has another
            shape.
    """
    advice = "Use the settings.json in the folder of the weights."
    load_strictly(model, read_weights(path), f"{path}: weights of another model", advice)


def load_strictly(
    model: nn.Module,
    state: Mapping[str, Tensor],
    title: str,
    advice: str,
    extra_faults: Sequence[str] = (),
) -> None:
    """Load a state dictionary completely, or not at all.

    Args:
        model: model to load the tensors into; changed in place.
        state: names and tensors.
        title: title of the message.
        advice: last line of the message.
        extra_faults: further faults of the weights for this model.

    Raises:
        RunError: if a tensor is missing, unknown or has another shape, or there are more faults.
    """
    faults = [*_mismatches(state, model.state_dict()), *extra_faults]
    if faults:
        raise RunError(list_faults(title, faults, advice, limit=_LISTED))
    model.load_state_dict(state, strict=True)


def _mismatches(state: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> list[str]:
    """Return the differences between the tensors of a file and those of a model."""
    faults = [f"{name}: missing" for name in model if name not in state]
    faults += [f"{name}: not in this model" for name in state if name not in model]
    for name, tensor in state.items():
        expected = model.get(name, tensor)
        if tensor.shape != expected.shape:
            faults.append(f"{name}: shape {tuple(tensor.shape)}, expected {tuple(expected.shape)}")
        elif tensor.is_floating_point() != expected.is_floating_point():
            faults.append(f"{name}: numbers of {tensor.dtype}, expected {expected.dtype}")
    return faults
