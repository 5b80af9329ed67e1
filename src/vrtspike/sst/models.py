"""The networks that forecast, by what MODEL.TYPE calls them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
    from vrtspike.sst.settings import SSTModelSettings

MODELS = {
    "recursive_attention": "vrtspike.sst.model.RecursiveAttentionTransformer",
}
"""Dotted names of classes: reading a preset needs no PyTorch. Each is made with the parameters of
:class:`~vrtspike.sst.model.RecursiveAttentionTransformer`."""


def build_model(model: SSTModelSettings, samples: ERA5SSTMonthlyDataset) -> nn.Module:
    """The network of a preset for the cells and months of a data set."""
    network = make_model(model, samples.store.grid.shape, samples.seq_len, samples.lead)
    place_on_grid(network, *samples.store.placement)
    return network


def make_model(
    model: SSTModelSettings, shape: tuple[int, int], seq_len: int, lead: int
) -> nn.Module:
    """The network of a preset for a grid (height, width) whose cells are all sea."""
    module, _, name = MODELS[model.TYPE].rpartition(".")
    model_class = cast("Callable[..., nn.Module]", getattr(import_module(module), name))
    height, width = shape
    others = {"TYPE", "PRETRAINED"}
    sizes = {key.lower(): value for key, value in model.model_dump(exclude=others).items()}
    return model_class(width=width, height=height, seq_len=seq_len, lead=lead, **sizes)


def place_on_grid(model: nn.Module, *grid: Any) -> None:  # noqa: ANN401 - arrays
    """Tell a model that asks (by a method ``on_grid``) where its cells lie."""
    on_grid = getattr(model, "on_grid", None)
    if on_grid is not None:
        on_grid(*grid)
