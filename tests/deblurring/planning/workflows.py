"""Configurations of one preset, and notices that are kept."""

from __future__ import annotations

from vrtspike.config.workflow import Workflow
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.settings import Settings
from vrtspike.workflow.messages import EndMessages

SOURCES = [{"FRAMES": "f", "SPLIT": "train", "SEQUENCE": "s"}]


def workflow_of(
    root: str, data: dict[str, str] | None = None, max_steps: int | None = None, **model
) -> DeblurringWorkflow:
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
    settings = Settings.model_validate(sections)
    keys = {
        "DEMO": {"ROOT": "made"},
        "SIMULATE": {"ROOT": "simulated", "SEQUENCES": SOURCES},
        "CALIBRATE": {"ROOT": "mine", "DATA": "recorded"},
    }
    return DeblurringWorkflow(Workflow(workflow_schema().model_validate(keys), {"p": settings}))


class RecordedNotices(EndMessages):
    """Notices that are kept in a list."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.exit_status = 0
        self.add = self.messages.append
