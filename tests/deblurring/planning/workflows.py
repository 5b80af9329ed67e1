"""Configurations of one preset, and their plans."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.deblurring.planning.data_plan import DataPlan
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.workflow.messages import ExitMessages
from vrtspike.workflow.snakemake_internals import SnakemakeInternals

SOURCES = [{"FRAMES": "f", "SPLIT": "train", "SEQUENCE": "s"}]


def workflow_of(
    root: str, data: dict[str, str] | None = None, max_steps: int | None = None, **model
) -> DeblurringConfig:
    """A configuration with the preset ``p``.

    Args:
        root: its DATA.ROOT.
        data: more keys of its section DATA.
        max_steps: its TRAIN.MAX_STEPS.
        model: keys of its section MODEL.
    """
    sections = {"DATA": {"ROOT": root, **(data or {})}, "MODEL": model}
    if max_steps is not None:
        sections["TRAIN"] = {"MAX_STEPS": max_steps}
    settings = DeblurringSettings.model_validate(sections)
    keys = {
        "DEMO": {"ROOT": "made"},
        "SIMULATE": {"ROOT": "simulated", "SEQUENCES": SOURCES},
        "CALIBRATE": {"ROOT": "mine", "DATA": "recorded"},
    }
    return DeblurringConfig(WorkflowConfig(workflow_schema().model_validate(keys), {"p": settings}))


class RecordedMessages(ExitMessages):
    """Messages that are kept in a list."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.exit_status = 0

    def add(self, *texts: str) -> None:
        """Keep messages."""
        self.messages += texts


def process(
    *, is_dry_run: bool = True, is_main: bool = True, runs_locally: bool = True
) -> SnakemakeInternals:
    """What a process of Snakemake tells a plan of the data."""
    facts = SimpleNamespace(is_dry_run=is_dry_run, is_main=is_main, runs_locally=runs_locally)
    return cast("SnakemakeInternals", facts)


def plan_of(config: DeblurringConfig, **facts: bool) -> DataPlan:
    """The plan of a process, see :func:`process`."""
    return DataPlan(config, process(**facts), RecordedMessages())
