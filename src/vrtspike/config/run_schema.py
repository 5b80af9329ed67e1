"""Keys that every preset has, whatever problem it trains for.

A problem adds sections of its own in a class of its own (:mod:`vrtspike.problems`); those of the
deblurring stand in :mod:`vrtspike.deblurring.settings`.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from vrtspike.config.aliases import COMMON, Aliases, canonical_keys
from vrtspike.config.fields import (
    NonNegative,
    Positive,
    Section,
    key,
    operational,
)
from vrtspike.config.reading import Document
from vrtspike.config.train_schema import MAIN_METRIC, TrainSettings
from vrtspike.config.variants import Ablation
from vrtspike.problems import DEFAULT, PROBLEMS

_SHARE = re.compile(r"cpu\*(0?\.\d+|1(\.0*)?)$")

VIDEO_KEYS = ("PROGRESSIVE", "DISTILL", "FREEZE_FLOW_STEPS")
"""Keys of TRAIN that concern clips, teachers and flow: of the deblurring alone."""


class DataloaderSettings(Section):
    """Worker processes and prefetching."""

    TOTAL_WORKERS: NonNegative | str = operational(
        "Workers of the machine: auto (80 % of the CPUs), 'cpu*0.9', or a number", "auto"
    )
    TRAIN_WORKERS: NonNegative | Literal["auto"] = operational("Training workers per GPU", "auto")
    VAL_WORKERS: NonNegative | Literal["auto"] = operational("Validation workers per GPU", "auto")
    TRAIN_PREFETCH_FACTOR: Positive = operational("Batches a training worker reads ahead", 4)
    VAL_PREFETCH_FACTOR: Positive = operational("Batches a validation worker reads ahead", 2)
    PIN_MEMORY: bool = operational("Page-locked host memory for copies to the GPU", True)
    PERSISTENT_WORKERS: bool = operational("Keep workers from one epoch to the next", True)
    SHUFFLE_BLOCK: Positive = key(
        "Successive clips that stay together when an epoch is shuffled; 1: all are shuffled", 1
    )
    DROP_LAST: bool = key("Drop an epoch's last, incomplete batch", True)

    @field_validator("TOTAL_WORKERS")
    @classmethod
    def _known_share(cls, value: int | str) -> int | str:
        if isinstance(value, str) and value != "auto" and not _SHARE.match(value):
            raise ValueError(f"found {value!r}, expected auto, 'cpu*0.9' (a share) or a number")
        return value


class LogSettings(Section):
    """Logs of a run; none of these changes a result unless early stopping watches it."""

    TENSORBOARD: bool = operational("Write TensorBoard files", True)
    VAL_EVERY_STEPS: Positive = operational("Optimiser steps between validations", 1000)
    VISUALS_EVERY_STEPS: Positive | None = operational(
        "Optimiser steps between pictures; null: at every validation", None
    )
    MEMORY_EVERY_STEPS: Positive = operational("Optimiser steps between memory lines", 100)
    ENABLE_TIMING_LOG: bool = operational("Measure sections of a step", True)
    TIMING_CONSOLE: bool = operational("Show timings in the terminal", True)
    TIMING_FILE: bool = operational("Write timings to a file", True)
    TIMING_CONSOLE_INTERVAL: Positive = operational("Steps between console updates", 10)
    TIMING_FILE_INTERVAL: Positive = operational("Steps between flushes of the file", 50)
    WANDB: str | None = operational(
        "Project of Weights & Biases that takes the figures (needs the package wandb); null: none",
        None,
        min_length=1,
    )
    MLFLOW: str | None = operational(
        "Experiment of MLflow that takes the figures (needs the package mlflow-skinny or mlflow; "
        "MLFLOW_TRACKING_URI says where); null: none",
        None,
        min_length=1,
    )
    ON_END: str | None = operational(
        "Shell command when a training has ended, however it did, such as 'mail -s "
        '"$VRTSPIKE_PRESET $VRTSPIKE_STATUS" me@example.org\'; null: none',
        None,
        min_length=1,
    )
    PROFILE_STEPS: tuple[Positive, Positive] | None = operational(
        "First and last step of a window under torch.profiler (logs/profile_*), such as [20, 22]",
        None,
    )

    @field_validator("PROFILE_STEPS")
    @classmethod
    def _window_in_order(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and value[0] > value[1]:
            raise ValueError(f"found {list(value)}, expected the first step before the last")
        return value


class RunSettings(Section):
    """What a training needs to know, whatever it trains for."""

    aliases: ClassVar[Aliases] = COMMON
    """Other spellings of keys; a problem that has some takes these, too."""
    ablation: ClassVar[Ablation | None] = None
    """What presets are compared with, where a problem has such a question."""
    workflow: ClassVar[type[Section]] = Section
    """Sections of ``config/config.yaml`` that a problem adds to it."""
    observers: ClassVar[tuple[str, ...]] = ()
    """Code in the problem's folder that decides no weights (:mod:`vrtspike.runs.code`): names such
    as ``data.manifests``, not dotted ones from ``vrtspike`` on, which would count as its use."""
    watched: ClassVar[tuple[str, ...] | None] = None
    """Metrics of a validation that early stopping can watch; None: known when it runs."""

    # No result key: presets of two problems differ in their sections anyway.
    TASK: str = operational(f"Problem that is trained for: {', or '.join(PROBLEMS)}", DEFAULT)
    SEED: NonNegative = key("Seed of initialisation, order and augmentation", 123)
    DETERMINISTIC: bool = key(
        "Deterministic algorithms; on a GPU where PyTorch has them, a warning names the others; "
        "false lets cuDNN choose the fastest",
        False,
    )
    DATALOADER: DataloaderSettings = key("Data loading", DataloaderSettings())
    TRAIN: TrainSettings = key("Training", TrainSettings())
    LOG: LogSettings = key("Logs", LogSettings())
    TEST: Section = key("Evaluation", Section())

    @classmethod
    def completed(cls, document: Document) -> Document:
        """The keys of a preset with those that it takes from other files laid beneath them."""
        return document

    @property
    def idle(self) -> frozenset[tuple[str, str]]:
        """Section and name of keys that are off and decide nothing, whatever is below them."""
        return frozenset()

    @property
    def named_files(self) -> dict[str, str | None]:
        """Files that a training reads, by the key that names them."""
        return {}

    @property
    def recomputing(self) -> tuple[str, ...]:
        """Keys that are on and compute activations again; the first one saves least memory."""
        return ()

    def value(self, name: str, otherwise: Any = None) -> Any:  # noqa: ANN401 - of any key
        """The value of a key that this problem may or may not have.

        Args:
            name: such as ``DATA.USE_RAM_CACHE``.
            otherwise: where there is no such key.

        >>> RunSettings().value("TRAIN.EPOCHS"), RunSettings().value("DATA.USE_RAM_CACHE", False)
        (40, False)
        """
        found: Any = self
        for part in name.split("."):
            found = getattr(found, part, None)
            if found is None:
                return otherwise
        return found

    @model_validator(mode="after")
    def _own_keys_only(self) -> Self:
        for name in () if self.TASK == DEFAULT else VIDEO_KEYS:
            if getattr(self.TRAIN, name):
                raise ValueError(f"TRAIN.{name} belongs to the deblurring; leave it out")
        return self

    @model_validator(mode="after")
    def _watches_what_there_is(self) -> Self:
        stopping = self.TRAIN.EARLY_STOPPING
        known = None if self.watched is None else (MAIN_METRIC, *self.watched)
        if stopping is not None and known is not None and stopping.METRIC not in known:
            raise ValueError(
                f"TRAIN.EARLY_STOPPING.METRIC: found {stopping.METRIC!r}, expected one of "
                f"{', '.join(known)}"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _accept_older_spellings(cls, data: Any) -> Any:  # noqa: ANN401 - raw YAML
        return canonical_keys(data, cls.aliases) if isinstance(data, dict) else data
