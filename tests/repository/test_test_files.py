"""The tests of a module are in the file that tests/README.md says, and so are the helpers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.module_tests import (
    TESTED_WITH,
    functions,
    listed_helpers,
    modules,
    needs_file,
    own_file,
    used,
)

SHARED_FIXTURES = ("conftest.py", "helpers/published_runs.py", "helpers/small_run_fixtures.py")
"""Files whose fixtures are used in several folders: the page lists all of them."""


def test_every_module_has_its_tests_where_the_page_says(repository):
    elsewhere = {module for names in TESTED_WITH.values() for module in names}
    package = repository / "src/vrtspike"
    without = [
        module
        for module in modules(package)
        if needs_file(package / f"{module}.py")
        and own_file(repository / "tests", module) is None
        and module not in elsewhere
    ]
    assert without == []


def test_listed_modules_exist_and_have_no_file_of_their_own(repository):
    listed = [module for names in TESTED_WITH.values() for module in names]
    assert sorted(set(listed)) == sorted(listed)
    assert set(listed) <= set(modules(repository / "src/vrtspike"))
    assert [module for module in listed if own_file(repository / "tests", module)] == []


@pytest.mark.parametrize("file", TESTED_WITH)
def test_a_listed_file_reaches_its_modules(repository, file):
    package = repository / "src/vrtspike"
    reached: set[Path] = set()
    pending = {repository / "tests" / file}
    # The registry of tasks imports these modules by names that it puts together.
    pending |= set((package / file).parent.glob("task.py"))
    while pending:
        path = pending.pop()
        reached.add(path)
        pending |= used(path, repository) - reached
    assert {package / f"{module}.py" for module in TESTED_WITH[file]} <= reached


@pytest.mark.parametrize("kind", ["fixture", "function"])
def test_helpers_of_the_page_exist(repository, kind):
    page = (repository / "tests/README.md").read_text(encoding="utf-8")
    helpers = listed_helpers(page, kind)
    assert len(helpers) >= 5
    for file, names in helpers.items():
        fixtures = functions(repository / "tests" / file)
        assert {name for name in names if fixtures.get(name) == (kind == "fixture")} == names, file


def test_the_page_lists_every_fixture_that_folders_share(repository):
    page = (repository / "tests/README.md").read_text(encoding="utf-8")
    helpers = listed_helpers(page, "fixture")
    for file in SHARED_FIXTURES:
        fixtures = functions(repository / "tests" / file)
        assert {name for name in fixtures if fixtures[name]} == helpers[file], file


def test_the_staleness_table_is_where_the_page_says(repository):
    page = (repository / "tests/README.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| `workflow/test_staleness")]
    (command,) = re.findall(r"`pytest -m (\w+) (tests/\S+)`", row)
    mark, file = command
    assert f"pytest.mark.{mark}" in (repository / file).read_text().split("\ndef ")[0]
