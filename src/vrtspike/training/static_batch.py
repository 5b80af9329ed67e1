"""Batches that stay where they are, for passes that read them at fixed addresses."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import torch

_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)


class UnknownPartError(TypeError):
    """A part of a batch into which one cannot look."""


def batch_tensors(batch: Any) -> list[torch.Tensor]:  # noqa: ANN401 - what a task prepares
    """The tensors of a batch, in an order that equal :func:`batch_kind` fixes."""
    return [part for _, part in _parts(batch, "") if isinstance(part, torch.Tensor)]


def batch_kind(batch: Any) -> Hashable | None:  # noqa: ANN401 - what a task prepares
    """What two batches have in common of which one can take the place of the other.

    Structure, types, shapes, layouts, and the values of all that is no tensor.

    Args:
        batch: tensors and plain values, in mappings, lists, tuples and dataclasses.

    Returns:
        None where it holds anything else: that may differ from batch to batch unseen.

    >>> batch_kind({"x": torch.ones(2)}) == batch_kind({"x": torch.zeros(2)})
    True
    >>> batch_kind({"x": torch.ones(2)}) == batch_kind({"x": torch.ones(3)})
    False
    >>> batch_kind(object()) is None
    True
    """
    try:
        return tuple((place, _kind(part)) for place, part in _parts(batch, ""))
    except UnknownPartError:
        return None


def _kind(part: object) -> Hashable:
    if isinstance(part, torch.Tensor):
        return tuple(part.shape), part.stride(), part.dtype, part.device, part.requires_grad
    return type(part), part


def _parts(value: Any, place: str) -> Iterator[tuple[str, object]]:  # noqa: ANN401
    if isinstance(value, (torch.Tensor, *_PLAIN)):
        yield place, value
    elif isinstance(value, Mapping):
        yield place, f"mapping of {len(value)}"
        for name, part in value.items():
            yield from _parts(part, f"{place}[{name!r}]")
    elif isinstance(value, list | tuple):
        # An empty one has no parts, but is not nothing.
        yield place, f"{type(value).__qualname__} of {len(value)}"
        for number, part in enumerate(value):
            yield from _parts(part, f"{place}[{number}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield place, type(value).__qualname__
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name), f"{place}.{field.name}")
    else:
        raise UnknownPartError(f"{place or 'the batch'} is a {type(value).__name__}")
