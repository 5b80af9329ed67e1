"""The keys of a preset that forecasts sea surface temperature."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from vrtspike.config.fields import (
    FractionBelowOne,
    NonNegative,
    Positive,
    PositiveFloat,
    Section,
    key,
    operational,
)
from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import ConfigError
from vrtspike.sst.area import Area
from vrtspike.sst.models import MODELS
from vrtspike.sst.names import CORRELATION, RMSE
from vrtspike.sst.years import Years

Degrees = tuple[float, float]
Span = tuple[int, int]


class AreaSettings(Section):
    """The region, by its edges in degrees; across the date line where east is less than west."""

    NAME: str = key("What it is called on pages", "Global", min_length=1)
    LON: Degrees = key("Degrees east of its western and eastern edge", (-180.0, 180.0))
    LAT: Degrees = key("Degrees north of its southern and northern edge", (-80.0, 80.0))

    @property
    def area(self) -> Area:
        """The region."""
        return Area(self.NAME, lon=list(self.LON), lat=list(self.LAT))

    @model_validator(mode="after")
    def _is_a_region(self) -> Self:
        try:
            _ = self.area
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self


class YearsSettings(Section):
    """First and last year of each split."""

    TRAIN: Span = key("Training; climatology and deviation are of these years alone")
    VAL: Span = key("Validation")
    TEST: Span = key("Evaluation")

    @property
    def years(self) -> Years:
        """The splits."""
        return Years(train=self.TRAIN, val=self.VAL, test=self.TEST)

    @model_validator(mode="after")
    def _are_apart(self) -> Self:
        try:
            _ = self.years
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self


class GenerateSettings(Section):
    """A globe that is generated instead of downloaded, in the layout of ERA5's files."""

    YEARS: Positive = key("How many, from 1980", 40)
    SEED: NonNegative = key("Seed of phases, El Nino and weather", 0)
    ANOMALIES: bool = key("False leaves out all that can be forecast beyond the seasons", True)


class SSTDataSettings(Section):
    """Which monthly means are read and how samples are cut."""

    ROOT: str = operational("Downloaded files of ERA5, a file or a folder", "data/era5")
    GENERATE: GenerateSettings | None = key(
        "Generate the files below ROOT; null: they are there", None
    )
    AREA: AreaSettings = key("Region", AreaSettings())
    RESOLUTION: PositiveFloat = key("Degrees of a cell", 2.0)
    YEARS: YearsSettings | None = key(
        "First and last year of each split; null: the last tenth tests, the one before validates",
        None,
    )
    SEQ_LEN: Positive = key("Months that are read", 12)
    OFFSET: NonNegative = key("Months between the last one read and the first one forecast", 0)
    LEAD: Positive = key("Months that are forecast", 3)


class SSTModelSettings(Section):
    """The network."""

    TYPE: str = key("Which one", "recursive_attention")
    D_MODEL: Positive = key("Size of a token", 64)
    NUM_HEADS: Positive = key("Heads of attention; a divisor of D_MODEL", 4)
    NUM_LAYERS: Positive = key("Blocks", 2)
    DIM_FEEDFORWARD: Positive = key("Size of the layer within a block", 128)
    DROPOUT: FractionBelowOne = key("Share of values that are dropped in training", 0.1)
    RECURSION_DEPTH: Positive = key("How often the blocks are applied, with the same weights", 2)
    PATCH_SIZE: Positive = key("Side of a patch in cells", 4)

    @field_validator("TYPE")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in MODELS:
            raise ValueError(f"found {value!r}, expected one of {', '.join(MODELS)}")
        return value

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
    """One preset of the sea surface temperature, complete."""

    watched: ClassVar[tuple[str, ...] | None] = (RMSE, CORRELATION)

    DATA: SSTDataSettings = key("Data", SSTDataSettings())
    MODEL: SSTModelSettings = key("Model", SSTModelSettings())
    TEST: SSTTestSettings = key("Evaluation", SSTTestSettings())
