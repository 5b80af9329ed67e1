"""The part of a task on the report page, and its default."""

from __future__ import annotations

from vrtspike.config.tasks import find_task
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.reporting.task_report import TaskReport, task_report, task_reports, validation_note

SEA = find_task("sst").SETTINGS(TASK="sst")


def test_a_task_without_its_own_part_has_the_default():
    assert type(task_report("sst")) is TaskReport
    assert type(task_report("deblurring")) is not TaskReport


def test_each_task_has_one_part_in_order():
    assert list(task_reports(["sst", "deblurring", "sst"])) == ["sst", "deblurring"]


def test_validations_are_described_by_the_task_of_each_run():
    blurred = DeblurringSettings.model_validate({"DATA": {"VALIDATION": "test"}})
    assert validation_note({"sea": SEA}) == ""
    assert validation_note({"sea": SEA, "a": blurred}) == (
        "Validations while training are of centre crops of test frames."
    )
