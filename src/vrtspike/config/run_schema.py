"""Keys of the presets of all tasks; each task has a subclass with further sections."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, field_validator, model_validator

from vrtspike.config.ablations import Ablation
from vrtspike.config.deprecated_keys import COMMON, DeprecatedKeys
from vrtspike.config.fields import (
    NonNegative,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    ShareBelowOne,
    key,
    operational,
    private,
)
from vrtspike.config.seed_names import MAX_SEEDS
from vrtspike.config.yaml_documents import Document, KeyPath

PrecisionName = Annotated[
    Literal["bf16-mixed", "16-mixed", "32", "bf16-true", "mixed"],
    BeforeValidator(lambda value: "32" if value == 32 else value),  # YAML reads it as a number
]


class OptimSettings(Section):
    """The optimiser."""

    TYPE: Literal["adamw", "adamw8bit"] = key("adamw8bit keeps its moments in 8 bits", "adamw")
    LR: PositiveFloat = key("Learning rate at the end of the warm-up", 2e-4)
    BETAS: tuple[ShareBelowOne, ShareBelowOne] = key("Decay of the two moments", (0.9, 0.99))
    WEIGHT_DECAY: NonNegativeFloat = key("Decoupled weight decay", 1e-4)
    PAGED: bool = operational("adamw8bit: moments in paged memory", False)


class ScheduleSettings(Section):
    """The learning rate over the steps: a linear warm-up, then half a cosine."""

    WARMUP_STEPS: NonNegative | None = key(
        "Optimiser steps of linear warm-up; null: a twentieth of all, at most 100", 256
    )
    MIN_LR: NonNegativeFloat = key("Learning rate at the end", 1e-7)


MAIN_METRIC = "main"
"""Name for the task's main metric in METRIC."""


class EarlyStoppingSettings(Section):
    """Stop when validation has not improved."""

    METRIC: str = key(
        "Validation metric, such as psnr; main: the task's most important one",
        MAIN_METRIC,
    )
    PATIENCE: Positive = key("Validations without improvement before stopping", 5)


class TrainSettings(Section):
    """The training loop."""

    EPOCHS: Positive | None = key(
        "Passes over the training samples; null: as many as TRAIN.MAX_STEPS need", 40
    )
    MAX_STEPS: NonNegative | None = key(
        "Stop after this many optimiser steps; 0: none, the weights stay those of MODEL.PRETRAINED",
        None,
    )
    BATCH_SIZE: Positive = key("Samples per GPU and micro-step", 1)
    VAL_BATCH_SIZE: Positive = operational("Samples per GPU in validation", 1)
    GRADIENT_ACCUMULATION_STEPS: Positive = key("Micro-steps per optimiser step", 6)
    MAX_GRAD_NORM: PositiveFloat | None = key("Clip the gradient to this norm", 1.0)
    COMPILE_MODEL: bool = key("Compile the model, or only its blocks, with torch.compile", False)
    COMPILE_MODE: Literal["default", "reduce-overhead", "max-autotune"] = key(
        "Mode of torch.compile", "default"
    )
    PRECISION: PrecisionName = key(
        "Arithmetic; mixed: the device's best half type; 16-mixed: float32 on a CPU, which "
        "computes float16 slowly; 32: float32, on a GPU with convolutions in TF32 (PyTorch's "
        "default)",
        "bf16-mixed",
    )
    AMP_INIT_SCALE: PositiveFloat = key("First loss scale of 16-mixed", 65536.0)
    OPTIM: OptimSettings = key("The optimiser", OptimSettings())
    SCHED: ScheduleSettings = key("The learning rate's schedule", ScheduleSettings())
    SCALE_LR: Literal["none", "sqrt", "linear"] = key(
        "Scale the learning rate with the global batch over BASE_BATCH_SIZE", "none"
    )
    BASE_BATCH_SIZE: Positive = key("Global batch that OPTIM.LR is meant for", 6)
    EMA: ShareBelowOne = key("Decay of the weights' moving average; 0 is off", 0.0)
    EARLY_STOPPING: EarlyStoppingSettings | None = key(
        "Stop early, and publish the weights of the best validation", None
    )
    SAVE_EVERY_STEPS: Positive = operational("Optimiser steps between checkpoints", 500)
    KEEP_LAST: Positive = operational("Checkpoints kept", 3)

    @property
    def epochs(self) -> int | None:
        """Passes over the training samples, of all phases together; None for no limit."""
        return self.EPOCHS

    @property
    def samples_per_step(self) -> int:
        """Samples of an optimiser step on one GPU.

        >>> TrainSettings(BATCH_SIZE=3, GRADIENT_ACCUMULATION_STEPS=4).samples_per_step
        12
        """
        return self.BATCH_SIZE * self.GRADIENT_ACCUMULATION_STEPS

    @property
    def memory_saving_changes(self) -> list[str]:
        """Changes of these keys that save device memory, without those that were made already.

        >>> TrainSettings(BATCH_SIZE=1).memory_saving_changes
        ['set TRAIN.OPTIM.TYPE to adamw8bit']
        """
        changes = []
        if self.BATCH_SIZE > 1:
            changes.append(
                "lower TRAIN.BATCH_SIZE and raise TRAIN.GRADIENT_ACCUMULATION_STEPS by the same "
                "factor"
            )
        if self.OPTIM.TYPE != "adamw8bit":
            changes.append("set TRAIN.OPTIM.TYPE to adamw8bit")
        return changes


_SHARE = re.compile(r"cpu\*(0?\.\d+|1(\.0*)?)$")

DEFAULT_TASK = "deblurring"
"""The task of a preset without TASK, such as older ones."""


class DataloaderSettings(Section):
    """Worker processes and prefetching."""

    TOTAL_WORKERS: NonNegative | str = operational(
        "Training workers of the machine: auto (80 % of the CPUs), 'cpu*0.9', or a number", "auto"
    )
    TRAIN_WORKERS: NonNegative | Literal["auto"] = operational("Training workers per GPU", "auto")
    VAL_WORKERS: NonNegative | Literal["auto"] = operational("Validation workers per GPU", "auto")
    TRAIN_PREFETCH_FACTOR: Positive = operational("Batches a training worker reads ahead", 4)
    VAL_PREFETCH_FACTOR: Positive = operational("Batches a validation worker reads ahead", 2)
    PIN_MEMORY: bool = operational("Page-locked host memory for copies to the GPU", True)
    PERSISTENT_WORKERS: bool = operational("Keep validation workers for the next validation", True)
    SHUFFLE_BLOCK: Positive = key("Successive samples that stay together in shuffling; 1: none", 1)
    DROP_LAST: bool = key("Drop an epoch's last, incomplete batch", True)

    @field_validator("TOTAL_WORKERS")
    @classmethod
    def _known_share(cls, value: int | str) -> int | str:
        if isinstance(value, str) and value != "auto" and not _SHARE.match(value):
            raise ValueError(f"found {value!r}, expected auto, 'cpu*0.9' (a share) or a number")
        return value

    @property
    def workers_key(self) -> str:
        """The key that sets the number of training workers."""
        if self.TRAIN_WORKERS != "auto":
            return "DATALOADER.TRAIN_WORKERS"
        return "DATALOADER.TOTAL_WORKERS"

    @property
    def workers(self) -> int | str:
        """The value of :attr:`workers_key`."""
        return self.TOTAL_WORKERS if self.TRAIN_WORKERS == "auto" else self.TRAIN_WORKERS


class LogSettings(Section):
    """Logs of a run; none of these changes a result unless early stopping watches it."""

    TENSORBOARD: bool = operational("Write TensorBoard files", True)
    VAL_EVERY_STEPS: Positive | None = operational(
        "Optimiser steps between validations; null: at the end of each epoch", 1000
    )
    VISUALS_EVERY_STEPS: Positive | None = operational(
        "Pictures of the first validation at or after each multiple of this step, and of the last "
        "one; null: of all",
        None,
    )
    MEMORY_EVERY_STEPS: Positive = operational("Optimiser steps between memory lines", 100)
    ENABLE_TIMING_LOG: bool = operational("Measure sections of a step", True)
    TIMING_CONSOLE: bool = operational("Show timings in the terminal", True)
    TIMING_FILE: bool = operational("Write timings to a file", True)
    TIMING_CONSOLE_INTERVAL: Positive = operational("Steps between console updates", 10)
    TIMING_FILE_INTERVAL: Positive = operational("Steps between flushes of the file", 50)
    WANDB: str | None = private(
        "Weights & Biases project that gets the metrics (package wandb); null: none",
        None,
        min_length=1,
    )
    MLFLOW: str | None = private(
        "MLflow experiment that gets the metrics (package mlflow-skinny or mlflow; address in"
        " MLFLOW_TRACKING_URI); null: none",
        None,
        min_length=1,
    )
    ON_END: str | None = private(
        "Shell command at the end of a training, such as 'mail -s \"$VRTSPIKE_PRESET "
        "$VRTSPIKE_STATUS\" me@example.org'; null: none",
        None,
        min_length=1,
    )
    PROFILE_STEPS: tuple[Positive, Positive] | None = operational(
        "First and last step under torch.profiler (logs/profile_*), such as [20, 22]",
        None,
    )

    @field_validator("PROFILE_STEPS")
    @classmethod
    def _window_in_order(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and value[0] > value[1]:
            raise ValueError(f"found {list(value)}, expected the first step before the last")
        return value


UNLIMITED = 1_000_000
"""Epochs or steps of a training that is stopped from outside."""


class RunSettings(Section):
    """The settings of a training, for any task.

    Attributes:
        deprecated_keys: other names of keys; a task's own include these.
        ablation: the task's ablation, if it has one.
        workflow_section: the task's keys and sections of ``config/config.yaml``.
        included_files: readers of files whose keys a preset includes beneath its own, by the key
            that names the file.
        root_keys: keys that describe the data at a root, by the key of that root. These keys do not
            apply to another root.
        watchable_metrics: metrics that early stopping can watch; None if they are known only at run
            time.
    """

    deprecated_keys: ClassVar[DeprecatedKeys] = COMMON
    ablation: ClassVar[Ablation | None] = None
    workflow_section: ClassVar[type[Section]] = Section
    included_files: ClassVar[Mapping[KeyPath, Callable[[Path], Document]]] = {}
    root_keys: ClassVar[Mapping[tuple[str, str], frozenset[tuple[str, str]]]] = {}
    watchable_metrics: ClassVar[tuple[str, ...] | None] = None

    # Operational, because the sections of two tasks differ anyway.
    BASE: None = operational("Preset to start from", None, exclude=True)
    TASK: str = operational("Task that is trained for; each has keys of its own", DEFAULT_TASK)
    SEED: NonNegative = key("Seed of initialisation, order and augmentation", 123)
    SEEDS: Positive = operational(
        "Trainings with different seeds, from SEED on; tables then have mean and standard "
        "deviation",
        1,
        le=MAX_SEEDS,
    )
    DETERMINISTIC: bool = key(
        "Deterministic algorithms where PyTorch has them (a warning names the others); false:"
        " cuDNN's fastest",
        False,
    )
    DATALOADER: DataloaderSettings = key("Data loading", DataloaderSettings())
    TRAIN: TrainSettings = key("Training", TrainSettings())
    LOG: LogSettings = key("Logs", LogSettings())
    TEST: Section = key("Evaluation", Section())

    @classmethod
    def preset_defaults(cls, workflow: Any) -> dict[str, Any]:  # noqa: ANN401 - of every task
        """Return the keys that ``config/config.yaml`` gives to presets that do not set them.

        Args:
            workflow: the contents of the file, with the keys of :attr:`workflow_section`.

        Returns:
            keys of a preset as a tree.
        """
        return {}

    @property
    def inactive_keys(self) -> frozenset[tuple[str, str]]:
        """Section and name of keys that have no effect in these settings."""
        train = self.TRAIN
        has_effect = {
            "COMPILE_MODE": train.COMPILE_MODEL,
            "BASE_BATCH_SIZE": train.SCALE_LR != "none",
            # On an older GPU, mixed is float16.
            "AMP_INIT_SCALE": train.PRECISION in ("16-mixed", "mixed"),
        }
        return frozenset(("TRAIN", name) for name, effective in has_effect.items() if not effective)

    @property
    def validation_on_test_key(self) -> str:
        """Key and value by which validations measure the test split; empty if they do not."""
        return ""

    @property
    def cache_key(self) -> str:
        """The key with the size of the cache that data are read through; empty without a cache."""
        return ""

    @property
    def cache_gb(self) -> float:
        """Size of the cache that data are read through; 0 without one."""
        return self.value(self.cache_key) if self.cache_key else 0.0

    @property
    def memory_saving_changes(self) -> list[str]:
        """Changes of keys that save device memory, the least harmful first."""
        return self.TRAIN.memory_saving_changes

    @property
    def unchanged_weights(self) -> str | None:
        """Trained model that is evaluated unchanged (MAX_STEPS is 0); None if the run trains."""
        if self.TRAIN.MAX_STEPS != 0:
            return None
        return self.value("MODEL.PRETRAINED")

    @property
    def seeds(self) -> int:
        """Number of trainings with different seeds; 1 if nothing is trained."""
        return self.SEEDS if self.unchanged_weights is None else 1

    def value(self, name: str) -> Any:  # noqa: ANN401 - of any key
        """Return the value of a key by its name, such as ``TRAIN.EPOCHS``; None without such a key.

        For names that are known at run time only, and keys that not every task has; elsewhere, use
        attributes.

        >>> RunSettings().value("TRAIN.EPOCHS"), RunSettings().value("TRAIN.NOTHING")
        (40, None)
        """
        value: Any = self
        for part in name.split("."):
            value = getattr(value, part, None)
        return value

    @model_validator(mode="after")
    def _check_early_stopping_metric(self) -> Self:
        stopping = self.TRAIN.EARLY_STOPPING
        if stopping is None or not self.watchable_metrics:
            return self
        allowed = (MAIN_METRIC, *self.watchable_metrics)
        if stopping.METRIC not in allowed:
            raise ValueError(
                f"TRAIN.EARLY_STOPPING.METRIC: found {stopping.METRIC!r}, expected one of "
                f"{', '.join(allowed)}"
            )
        return self

    @model_validator(mode="after")
    def _training_ends(self) -> Self:
        if self.TRAIN.epochs is None and self.TRAIN.MAX_STEPS is None:
            raise ValueError(
                "TRAIN.EPOCHS: found null, and TRAIN.MAX_STEPS is null, too, so that training "
                "would never end; expected a number for one of them"
            )
        return self

    @model_validator(mode="after")
    def _no_steps_keep_weights(self) -> Self:
        if self.TRAIN.MAX_STEPS == 0 and self.value("MODEL.PRETRAINED") is None:
            raise ValueError(
                "TRAIN.MAX_STEPS is 0, so nothing is trained, and no MODEL.PRETRAINED is given; "
                "expected a trained model there, whose weights are not trained: name one, or "
                "raise TRAIN.MAX_STEPS"
            )
        return self

    def training_faults(self) -> list[str]:
        """Return reasons not to begin a training; earlier results with them can still be read."""
        faults = []
        if self.TRAIN.EMA > 0 and self.TRAIN.PRECISION == "bf16-true":
            faults.append(
                "TRAIN.EMA: an average of bfloat16 weights hardly moves, its steps are rounded "
                "away; set TRAIN.PRECISION to bf16-mixed, or TRAIN.EMA to 0"
            )
        rate = self.TRAIN.OPTIM.LR
        last = self.TRAIN.SCHED.MIN_LR
        if last > rate:
            faults.append(
                f"TRAIN.SCHED.MIN_LR is {last}, above TRAIN.OPTIM.LR ({rate}), so that the rate "
                "would rise; lower it, or raise that"
            )
        return faults


def unchanged_weights_note(start: str) -> str:
    """Return the note on a run that trains nothing.

    Args:
        start: value of :attr:`RunSettings.unchanged_weights`. Absolute paths are shortened to their
            last part.

    >>> unchanged_weights_note("general")
    'nothing was trained: the weights are those of general, unchanged'
    """
    folder = Path(start.removesuffix("/weights.safetensors"))
    name = folder.name if folder.is_absolute() else folder
    return f"nothing was trained: the weights are those of {name}, unchanged"
