"""The keys of a preset that forecasts sea surface temperature, and its metrics.

Splits are whole years, never months drawn at random: neighbouring months are alike, so a model
would have seen what it is tested on.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from vrtspike.config.fields import (
    NonNegative,
    NormalizedPath,
    Positive,
    PositiveFloat,
    Section,
    ShareBelowOne,
    key,
    operational,
    weights,
)
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.tasks import Metric
from vrtspike.io.manifests import ManifestKind
from vrtspike.sst.grid import Area
from vrtspike.sst.months import MONTHS, month_number
from vrtspike.system.errors import DataError
from vrtspike.system.rounding import ceil_div

Degrees = tuple[float, float]
YearSpan = tuple[int, int]

RMSE, CORRELATION = "rmse", "acc"
_metric = partial(Metric, decimals=3, reference_name="baseline", result_name="forecast")
METRICS = {
    RMSE: _metric(
        RMSE,
        "RMSE",
        "root of the squared error in kelvin, its mean weighted by the area of open sea",
        unit="K",
        larger_is_better=False,
    ),
    CORRELATION: _metric(
        CORRELATION,
        "anomaly correlation",
        "forecast and observed anomalies in kelvin about the climatology of the training years, "
        "weighted by the area of open sea, uncentred; means over the leads at which both have one",
    ),
}
"""Metrics by name, the most important first; ``baseline`` is the one of the lowest RMSE."""

PREPARED = ManifestKind[dict[str, Any]]("manifest of prepared temperatures", 5, "prepare")
SST_MODELS = {"recursive_attention": "vrtspike.sst.model.RecursiveAttentionTransformer"}
"""Dotted names of the networks' classes by their MODEL.TYPE: presets are read without PyTorch.

Each is made with the parameters of :class:`~vrtspike.sst.model.RecursiveAttentionTransformer`.
"""
_HELD_OUT = 0.1
"""Default share of the years for each of validation and test."""


class AreaSettings(Section):
    """The region, by its edges in degrees; across the date line where east is less than west."""

    NAME: str = key("Name of the region on pages", "Global", min_length=1)
    LON: Degrees = key("Degrees east of its western and eastern edge", (-180.0, 180.0))
    LAT: Degrees = key("Degrees north of its southern and northern edge", (-80.0, 80.0))

    @property
    def area(self) -> Area:
        """The region."""
        return Area(self.NAME, lon=self.LON, lat=self.LAT)

    @model_validator(mode="after")
    def _encloses_something(self) -> Self:
        _ = self.area
        return self


class Years(Section):
    """First and last year of each split."""

    TRAIN: YearSpan = key(
        "Training years; climatology and standard deviation are computed from them alone"
    )
    VAL: YearSpan = key("Validation")
    TEST: YearSpan = key("Evaluation")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        years = [year for _, (first, last) in self for year in range(first, last + 1)]
        backwards = any(first > last for _, (first, last) in self)
        if backwards or len({*years}) < len(years):
            raise ValueError(
                f"found {self}, expected the first year first, and each year in one split, or a "
                "model is tested on what it was trained on"
            )
        return self

    def months(self, split: str) -> range:
        """Return the numbers of the months of a split.

        >>> len(Years(TRAIN=(1980, 1989), VAL=(1990, 1990), TEST=(1991, 1992)).months("test"))
        24
        """
        first, last = getattr(self, split.upper())
        return range(month_number(first, 1), month_number(last, 12) + 1)


def years_within(years: Years | None, first: int, last: int, name: str) -> Years:
    """Return the years of the splits, checked against the months of the data.

    Args:
        years: requested years; None divides all whole years: the last tenth is for the test, the
            tenth before it for validation.
        first: number of the first month of the data.
        last: number of the last one.
        name: name of the data, for messages.

    Raises:
        DataError: if the data lack some of the years; or there are fewer than four whole years to
            divide (a climatology needs two).

    >>> years_within(None, month_number(1980, 3), month_number(2010, 12), "a.nc")
    Years(TRAIN=(1981, 2004), VAL=(2005, 2007), TEST=(2008, 2010))
    """
    begin = ceil_div(first, MONTHS)
    end = (last + 1) // MONTHS - 1
    whole = max(0, end - begin + 1)
    if years is None and whole > 3:
        held_out = max(1, round(_HELD_OUT * whole))
        test = end - held_out + 1
        val = test - held_out
        years = Years(TRAIN=(begin, val - 1), VAL=(val, test - 1), TEST=(test, end))
    if years is None or any(span[0] < begin or span[1] > end for _, span in years):
        raise DataError(
            f"{name} has {whole} whole years from {begin} to {end}, expected {years or 'four'}, to "
            "train, to validate and to test; download more years, or choose others"
        )
    return years


class GenerateSettings(Section):
    """A globe that is generated instead of downloaded."""

    YEARS: Positive = key("Number of years, from 1980", 40)
    SEED: NonNegative = key("Seed of El Nino and weather", 0)
    ANOMALIES: bool = key("False omits everything that can be forecast beyond the seasons", True)


class SSTDataSettings(Section):
    """Monthly means that are read, and the cutting of samples."""

    ROOT: NormalizedPath = operational("Downloaded files of ERA5, a file or a folder", "data/era5")
    GENERATE: GenerateSettings | None = key(
        "Generate a globe instead of reading ROOT; null: read it", None
    )
    AREA: AreaSettings = key("Region", AreaSettings())
    RESOLUTION: PositiveFloat = key("Degrees of a cell", 2.0)
    YEARS: Years | None = key(
        "First and last year of each split (ERA5 begins in 1940); null: all whole years of the "
        "files, of which the last tenth is for testing, the one before for validation",
        None,
    )
    SEQ_LEN: Positive = key("Months that are read", 12)
    OFFSET: NonNegative = key("Months between the last one read and the first one forecast", 0)
    LEAD: Positive = key("Months that are forecast", 3)


class SSTModelSettings(Section):
    """The network."""

    TYPE: str = key(
        "Network: recursive_attention, a transformer (docs/sst.md)",
        "recursive_attention",
        pattern=f"^({'|'.join(SST_MODELS)})$",
    )
    D_MODEL: Positive = key("Size of a token", 64)
    NUM_HEADS: Positive = key("Heads of attention; a divisor of D_MODEL", 4)
    NUM_LAYERS: Positive = key("Blocks", 2)
    DIM_FEEDFORWARD: Positive = key("Size of the layer within a block", 128)
    DROPOUT: ShareBelowOne = key("Share of values that are dropped in training", 0.1)
    RECURSION_DEPTH: Positive = key(
        "Number of times that the blocks are applied, with the same weights", 2
    )
    PATCH_SIZE: Positive = key("Side of a patch in cells", 4)
    PRETRAINED: NormalizedPath | None = weights(
        "Trained run to start from (results/train/<preset>), or its weights.safetensors", None
    )

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.D_MODEL % self.NUM_HEADS:
            raise ValueError(
                f"D_MODEL is {self.D_MODEL}, expected a multiple of NUM_HEADS ({self.NUM_HEADS})"
            )
        return self


class SSTTestSettings(Section):
    """Evaluation."""

    SPLIT: Literal["val", "test"] = key("Years that are evaluated", "test")
    BATCH_SIZE: Positive = operational("Samples that are forecast at once", 32)


class SSTSettings(RunSettings):
    """All settings of a preset of the sea surface temperature."""

    watchable_metrics: ClassVar[tuple[str, ...] | None] = (RMSE, CORRELATION)

    DATA: SSTDataSettings = key("Data", SSTDataSettings())
    MODEL: SSTModelSettings = key("Model", SSTModelSettings())
    TEST: SSTTestSettings = key("Evaluation", SSTTestSettings())
