"""The part of a problem on the report page, and its default."""

from __future__ import annotations

from vrtspike.config.problems import find_problem
from vrtspike.reporting.problem_page import (
    ProblemPage,
    problem_page,
    problem_pages,
    validation_note,
)
from vrtspike.settings import Settings

SEA = find_problem("sst").SETTINGS(TASK="sst")


def test_a_problem_without_a_page_of_its_own_has_the_default():
    assert type(problem_page("sst")) is ProblemPage
    assert type(problem_page("deblurring")) is not ProblemPage


def test_each_problem_has_one_page_in_order():
    assert list(problem_pages(["sst", "deblurring", "sst"])) == ["sst", "deblurring"]


def test_validations_are_described_by_the_problem_of_each_run():
    blurred = Settings.model_validate({"DATA": {"VALIDATION": "test"}})
    assert validation_note({"sea": SEA}) == ""
    assert validation_note({"sea": SEA, "a": blurred}) == (
        "Validations while training are of centre crops of test frames."
    )
