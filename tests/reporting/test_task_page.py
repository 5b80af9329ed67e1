"""The part of a task on the report page, and its default."""

from __future__ import annotations

from vrtspike.config.tasks import find_task
from vrtspike.reporting.task_page import TaskPage, task_page, task_pages, validation_note
from vrtspike.settings import Settings

SEA = find_task("sst").SETTINGS(TASK="sst")


def test_a_task_without_a_page_of_its_own_has_the_default():
    assert type(task_page("sst")) is TaskPage
    assert type(task_page("deblurring")) is not TaskPage


def test_each_task_has_one_page_in_order():
    assert list(task_pages(["sst", "deblurring", "sst"])) == ["sst", "deblurring"]


def test_validations_are_described_by_the_task_of_each_run():
    blurred = Settings.model_validate({"DATA": {"VALIDATION": "test"}})
    assert validation_note({"sea": SEA}) == ""
    assert validation_note({"sea": SEA, "a": blurred}) == (
        "Validations while training are of centre crops of test frames."
    )
