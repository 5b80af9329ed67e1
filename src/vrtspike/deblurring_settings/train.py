"""Keys of the TRAIN section that concern clips, teachers and flow."""

from __future__ import annotations

from vrtspike.config.fields import (
    NonNegative,
    NormalizedPath,
    Positive,
    PositiveFloat,
    Section,
    key,
    weights,
)
from vrtspike.config.run_schema import OptimSettings, TrainSettings


class LrFactors(Section):
    """Learning rates of parts of the model; the schedule scales all of them alike."""

    NEW: PositiveFloat = key(
        "Factor of LR for parts without pretrained weights (spike encoder, its attention, fusion)",
        1.0,
    )
    BACKBONE: PositiveFloat = key("Factor of LR for VRT without flow and alignment", 1.0)
    FLOW: PositiveFloat = key(
        "Factor of the backbone's rate for flow and alignment; 1 suits an untrained flow", 0.125
    )


class DeblurringOptimSettings(OptimSettings):
    """The optimiser, and rates of parts of the model."""

    LR_FACTORS: LrFactors = key("Learning rates of parts of the model", LrFactors())


class PhaseSettings(Section):
    """A phase of progressive training."""

    CROP_SIZE: Positive = key("Crop size in this phase", multiple_of=8)
    EPOCHS: Positive = key("Epochs of this phase")


class DistillSettings(Section):
    """Learn from a larger model as well."""

    TEACHER: NormalizedPath = weights("Result folder of the teacher (results/train/<preset>)")
    WEIGHT: PositiveFloat = key("Weight of the distance to the teacher's output", 1.0)


class DeblurringTrainSettings(TrainSettings):
    """The training loop, and what clips add to it."""

    OPTIM: DeblurringOptimSettings = key("The optimiser", DeblurringOptimSettings())
    PROGRESSIVE: tuple[PhaseSettings, ...] = key("Phases of growing crops; empty: one phase", ())
    DISTILL: DistillSettings | None = key("Distillation from a teacher", None)
    FREEZE_FLOW_STEPS: NonNegative | None = key(
        "Steps with flow and alignment fixed; null: none",
        None,
    )

    @property
    def epochs(self) -> int | None:
        """Passes over the training clips, of all phases together; None for no limit."""
        return sum(phase.EPOCHS for phase in self.PROGRESSIVE) or self.EPOCHS
