"""Keys of the TRAIN section."""

from __future__ import annotations

from typing import Literal

from vrtspike.config.fields import (
    Fraction,
    NonNegative,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    key,
    operational,
    weights,
)

Precision = Literal["bf16-mixed", "16-mixed", "32", "bf16-true", "mixed"]


class RateFactors(Section):
    """Learning rates of parts of the model; the schedule scales all of them alike."""

    NEW: PositiveFloat = key(
        "Of LR: what never has pretrained weights (spike encoder, its attention, fusion)", 1.0
    )
    BACKBONE: PositiveFloat = key("Of LR: VRT without flow and alignment", 1.0)
    FLOW: PositiveFloat = key(
        "Of the backbone's rate: flow and alignment; 1 suits a flow that is not pretrained", 0.125
    )


class OptimSettings(Section):
    """The optimiser."""

    TYPE: Literal["adamw", "adamw8bit"] = key("adamw8bit keeps its moments in 8 bits", "adamw")
    LR: PositiveFloat = key(
        "Learning rate at the end of the warm-up; LR_FACTORS are fractions of it", 2e-4
    )
    LR_FACTORS: RateFactors = key("Learning rates of parts of the model", RateFactors())
    BETAS: tuple[Fraction, Fraction] = key("Decay of the two moments", (0.9, 0.99))
    WEIGHT_DECAY: NonNegativeFloat = key("Decoupled weight decay", 1e-4)
    PAGED: bool = operational("adamw8bit: moments in paged memory", False)


class ScheduleSettings(Section):
    """The learning rate over the steps: a linear warm-up, then half a cosine."""

    WARMUP_STEPS: NonNegative = key("Optimiser steps of linear warm-up", 256)
    MIN_LR: NonNegativeFloat = key("Learning rate at the end", 1e-7)


MAIN_METRIC = "main"
"""What stands for the metric that a problem takes for its most important one."""


class EarlyStoppingSettings(Section):
    """Stop when validation has not improved."""

    METRIC: str = key(
        "Watched metric of the validations, such as psnr or ssim of videos; main: the problem's "
        "own, of videos PSNR",
        MAIN_METRIC,
    )
    PATIENCE: Positive = key("Validations without improvement before stopping", 5)


class PhaseSettings(Section):
    """One phase of progressive training."""

    CROP_SIZE: Positive = key("Crop size in this phase", multiple_of=8)
    EPOCHS: Positive = key("Epochs of this phase")


class DistillSettings(Section):
    """Learn from a larger model as well."""

    TEACHER: str = weights("Published result folder of the teacher (results/train/<preset>)")
    WEIGHT: PositiveFloat = key("Weight of the distance to the teacher's output", 1.0)


class TrainSettings(Section):
    """The training loop."""

    EPOCHS: Positive = key("Passes over the training clips", 40)
    MAX_STEPS: Positive | None = key("Stop after this many optimiser steps", None)
    BATCH_SIZE: Positive = key("Clips per GPU and micro-step", 1)
    VAL_BATCH_SIZE: Positive = operational("Clips per GPU in validation", 1)
    GRADIENT_ACCUMULATION_STEPS: Positive = key("Micro-steps per optimiser step", 6)
    MAX_GRAD_NORM: PositiveFloat | None = key("Clip the gradient to this norm", 1.0)
    COMPILE_MODEL: bool = key("Compile the blocks with torch.compile", False)
    COMPILE_MODE: Literal["default", "reduce-overhead", "max-autotune"] = key(
        "Mode of torch.compile", "default"
    )
    CUDA_GRAPH: Literal["auto", "on", "off"] = operational(
        "Record a micro-step once and replay it: the GPU no longer waits for launches. 'auto': on "
        "CUDA, if it computes the same there (a warning says where not); 'on': that is an error",
        "auto",
    )
    PRECISION: Precision = key(
        "Arithmetic; 'mixed' takes the best half type of the device; 32 is float32, whose factors "
        "convolutions on a GPU round to ten bits (TF32, PyTorch's default), those of losses too",
        "bf16-mixed",
    )
    AMP_INIT_SCALE: PositiveFloat = key("First loss scale of 16-mixed", 65536.0)
    OPTIM: OptimSettings = key("The optimiser", OptimSettings())
    SCHED: ScheduleSettings = key("The learning rate's schedule", ScheduleSettings())
    SCALE_LR: Literal["none", "sqrt", "linear"] = key(
        "Scale the learning rate with the global batch over BASE_BATCH_SIZE", "none"
    )
    BASE_BATCH_SIZE: Positive = key("Global batch that OPTIM.LR is meant for", 6)
    EMA: Fraction = key("Decay of the weights' moving average; 0 is off", 0.0, lt=1)
    EARLY_STOPPING: EarlyStoppingSettings | None = key("Stop early", None)
    PROGRESSIVE: tuple[PhaseSettings, ...] = key("Phases of growing crops; empty: one phase", ())
    DISTILL: DistillSettings | None = key("Distillation from a teacher", None)
    FREEZE_FLOW_STEPS: NonNegative | None = key(
        "Keep flow and alignment fixed for these steps, then train them at the rate that "
        "OPTIM.LR_FACTORS gives them; null: train them from the first step",
        None,
    )
    SAVE_EVERY_STEPS: Positive = operational("Optimiser steps between checkpoints", 500)
    KEEP_LAST: Positive = operational("Checkpoints kept besides the best", 3)
    NUM_WORKERS: NonNegative | None = operational("Old name; use DATALOADER", None)
