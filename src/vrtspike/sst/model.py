"""A transformer over patches of the sea whose blocks are applied several times."""

from __future__ import annotations

import math
from collections.abc import Callable
from pkgutil import resolve_name

import numpy as np
import torch
from numpy.typing import ArrayLike
from pydantic import validate_call
from torch import nn
from torch.nn import functional

from vrtspike.config.fields import Positive, ShareBelowOne
from vrtspike.monitoring.timing import section
from vrtspike.sst.grid import Grid
from vrtspike.sst.months import MONTHS
from vrtspike.sst.settings import SST_MODELS, SSTSettings
from vrtspike.sst.store import PreparedStore
from vrtspike.system.errors import ConfigError
from vrtspike.system.rounding import ceil_div

HARMONICS = 8
"""Waves around a circle of latitude that encode places; half as many from pole to pole."""
_SEASONS = 2
"""Number of harmonics of the year."""


class RecursiveAttentionTransformer(nn.Module):
    """Transformer that forecasts anomalies of the sea from those of the months before.

    The region is cut into square patches. Each patch with sea is one token, made from all its
    months, its place on the sphere, its coast line and the month of the year; patches of land are
    left out. The blocks of the encoder are applied ``recursion_depth`` times with the same weights
    (Dehghani et al., 2019, "Universal Transformers"), and a linear layer predicts by how much each
    of the next months differs from the last one. The linear layer begins at zero: an untrained
    model predicts unchanged standardised anomalies.

    Args:
        width: columns of cells.
        height: rows of cells.
        seq_len: months that are read.
        d_model: size of a token.
        num_heads: heads of attention; they divide ``d_model``.
        num_layers: blocks with weights of their own.
        dim_feedforward: size of the layer within each block.
        dropout: share of values that are dropped in training.
        recursion_depth: number of passes through the blocks.
        learning_rate: learning rate for the trainer
            (:class:`vrtspike.sst.base_trainer.BaseTrainer`); the model does not depend on it.
        lead: months that are forecast.
        patch_size: rows and columns of a patch.

    Raises:
        ValueError: from pydantic, naming an invalid parameter.
    """

    sea: torch.Tensor
    tokens: torch.Tensor
    places: torch.Tensor

    @validate_call
    def __init__(
        self,
        width: Positive,
        height: Positive,
        seq_len: Positive,
        d_model: Positive = 512,
        num_heads: Positive = 8,
        num_layers: Positive = 3,
        dim_feedforward: Positive = 1024,
        dropout: ShareBelowOne = 0.1,
        recursion_depth: Positive = 2,
        learning_rate: float = 1e-3,
        lead: Positive = 1,
        patch_size: Positive = 4,
    ) -> None:
        super().__init__()
        self.width = width
        self.height = height
        self.seq_len = seq_len
        self.lead = lead
        self.patch_size = patch_size
        self.recursion_depth = recursion_depth
        self.learning_rate = learning_rate
        # Rows and columns of patches; the last ones may reach beyond the region.
        self._counts = ceil_div(height, patch_size), ceil_div(width, patch_size)
        cells = patch_size**2
        self.content = nn.Linear(seq_len * cells, d_model)
        self.place = nn.Linear(3 + 2 * HARMONICS + 2 * (HARMONICS // 2) + cells, d_model)
        self.season = nn.Linear(2 * _SEASONS, d_model)
        sizes = d_model, num_heads, dim_feedforward, dropout
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(*sizes, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(num_layers)
        )
        # The layer has no normalisation before it, because the size of a token is the size of the
        # change.
        self.head = nn.Linear(d_model, lead * cells)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        for name in ("sea", "tokens", "places"):
            # The region determines these values, so weights of one region can start those of
            # another.
            self.register_buffer(name, torch.empty(0), persistent=False)
        rows = np.arange(height) + 0.5
        columns = np.arange(width) + 0.5
        latitudes = 90 - 180 * rows / height
        longitudes = 360 * columns / width - 180
        self.on_grid(np.ones((height, width)), latitudes, longitudes)

    def on_grid(self, sea: ArrayLike, latitudes: ArrayLike, longitudes: ArrayLike) -> None:
        """Set the places of the cells; by default they are all sea and cover the globe.

        Args:
            sea: (height, width), true where there is sea.
            latitudes: (height,) degrees north of the rows.
            longitudes: (width,) degrees east of the columns.

        Raises:
            ConfigError: if these are not the model's sizes.
        """
        mask = np.asarray(sea, bool)
        if mask.shape != (self.height, self.width):
            raise ConfigError(
                f"the data have {mask.shape[0]} rows and {mask.shape[1]} columns, but the model "
                f"was made with height {self.height} and width {self.width}; give it "
                f"height={mask.shape[0]}, width={mask.shape[1]}"
            )
        device = self.head.weight.device
        self.sea = torch.from_numpy(mask.copy()).to(device)
        coast = self._patches(self.sea[None, None].float())[0]
        self.tokens = coast.any(dim=1).nonzero()[:, 0]
        features = [self._positions(latitudes, longitudes).to(device), coast]
        self.places = torch.cat(features, dim=1)[self.tokens]

    def forward(self, past: torch.Tensor, month: torch.Tensor) -> torch.Tensor:
        """Forecast.

        Args:
            past: (B, seq_len, height, width) anomalies in standard deviations; values on land are
                ignored.
            month: (B,) calendar month of the last of them, 0 for January.

        Returns:
            (B, lead, height, width) anomalies; 0 on land.
        """
        past = torch.where(self.sea, past, 0)
        with section("embedding"):
            tokens = self.content(self._patches(past)[:, self.tokens])
            season = self.season(_season(month).to(tokens.dtype))
            tokens = tokens + self.place(self.places) + season[:, None]
        with section("encoder"):
            for _ in range(self.recursion_depth):
                for block in self.blocks:
                    tokens = block(tokens)
        with section("head"):
            changes = self._field(self.head(tokens))
        return torch.where(self.sea, past[:, -1:] + changes, 0)

    def _patches(self, field: torch.Tensor) -> torch.Tensor:
        """Cut (B, C, height, width) into (B, patches, C * patch_size ** 2), 0 beyond the region."""
        rows, columns = self._counts
        right = columns * self.patch_size - self.width
        below = rows * self.patch_size - self.height
        field = functional.pad(field, (0, right, 0, below))
        return functional.pixel_unshuffle(field, self.patch_size).flatten(2).mT

    def _field(self, values: torch.Tensor) -> torch.Tensor:
        """Join (B, tokens, lead * patch_size ** 2) to (B, lead, height, width), 0 elsewhere."""
        rows, columns = self._counts
        whole = values.new_zeros(len(values), rows * columns, values.shape[2])
        whole = whole.index_copy(1, self.tokens, values).mT.unflatten(2, (rows, columns))
        return functional.pixel_shuffle(whole, self.patch_size)[..., : self.height, : self.width]

    def _positions(self, latitudes: ArrayLike, longitudes: ArrayLike) -> torch.Tensor:
        """Return positions (patches, features) of the patches' centres: periodic in longitude."""
        rows, columns = self._counts
        lat = np.deg2rad(_means(latitudes, self.patch_size, rows))
        lon = np.deg2rad(_means(longitudes, self.patch_size, columns))
        lat, lon = (axis.ravel() for axis in np.meshgrid(lat, lon, indexing="ij"))
        sphere = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
        number = np.arange(1, HARMONICS + 1)[:, None]
        angles = np.concatenate([number * lon, 2 * number[: HARMONICS // 2] * lat])
        waves = np.stack([np.cos(angles), np.sin(angles)], axis=1).reshape(-1, lat.size)
        return torch.from_numpy(np.concatenate([sphere, waves]).T).float()


def _means(values: ArrayLike, size: int, count: int) -> list[float]:
    """Return the means of ``count`` parts of ``size`` values; the last part may be shorter."""
    array = np.asarray(values)
    return [float(np.mean(array[part * size : (part + 1) * size])) for part in range(count)]


def _season(month: torch.Tensor) -> torch.Tensor:
    """Encode months (B,), counted from 0, as (B, 2 * harmonics): January follows December."""
    numbers = torch.arange(1, _SEASONS + 1, device=month.device)
    angles = month[:, None] * (2 * math.pi / MONTHS) * numbers
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def build_sst_model(settings: SSTSettings, store: PreparedStore | None = None) -> nn.Module:
    """Build the network of a preset for the cells of a store; without a store all are sea."""
    data = settings.DATA
    height, width = Grid(data.AREA.area, data.RESOLUTION).shape
    sizes = settings.MODEL.model_dump(exclude={"TYPE", "PRETRAINED"})
    parameters = {key.lower(): value for key, value in sizes.items()}
    model_class: Callable[..., nn.Module] = resolve_name(SST_MODELS[settings.MODEL.TYPE])
    network = model_class(width, height, data.SEQ_LEN, lead=data.LEAD, **parameters)
    if store is not None:
        place_on_grid(network, **store.placement)
    return network


def place_on_grid(model: nn.Module, **grid: ArrayLike) -> None:
    """Call the method ``on_grid`` of a model, if it has one, with the places of the cells."""
    on_grid = getattr(model, "on_grid", None)
    if on_grid is not None:
        on_grid(**grid)
