"""Workflows and issue forms of GitHub: valid, and their commands exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from vrtspike.commands.main import COMMANDS, make_parser

FOLDER = Path(__file__).resolve().parents[2] / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))
FORMS = sorted((FOLDER / "ISSUE_TEMPLATE").glob("*.yml"))
INPUTS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}
"""Kinds of elements of an issue form."""


def parsed(path):
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def steps(path):
    return [step for job in parsed(path)["jobs"].values() for step in job["steps"]]


def commands(path):
    """The lines of a workflow's steps."""
    lines = [line for step in steps(path) for line in step.get("run", "").splitlines()]
    return [line.strip() for line in lines if line.strip()]


def test_workflows_and_forms_are_all_there():
    assert [path.stem for path in WORKFLOWS] == ["ci", "tests"]
    assert [path.stem for path in FORMS] == ["bug_report", "data_set_does_not_load"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_can_be_read(path):
    workflow = parsed(path)
    assert workflow["name"] == path.stem
    assert workflow["on"]["push"] == {"branches": ["main"]}
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        assert job["runs-on"]
    for step in steps(path):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])


def test_the_commands_of_workflows_exist(repository):
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = []
    for path in WORKFLOWS:
        for program, *words in map(shlex.split, commands(path)):
            if program == "make":
                assert set(words) <= targets
                named += [f"make {word}" for word in words]
            elif program == "bash":
                assert (repository / words[0]).is_file()
                named.append(words[0])
            else:
                assert program == "git"
    assert named == [".ci/run", "make test"]


def test_the_tests_run_on_every_stated_python(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    (job,) = parsed(FOLDER / "workflows/tests.yml")["jobs"].values()
    (all_checks,) = parsed(FOLDER / "workflows/ci.yml")["jobs"].values()
    version = re.fullmatch(r"python:(3\.\d+)-\w+", all_checks["container"])[1]
    assert sorted([*job["strategy"]["matrix"]["python"], version]) == sorted(stated)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_can_be_read(path):
    form = parsed(path)
    assert set(form) == {"name", "description", "labels", "body"}
    ids = [element["id"] for element in form["body"] if element["type"] != "markdown"]
    assert len(set(ids)) == len(ids) >= 4
    for element in form["body"]:
        assert element["type"] in INPUTS
        needed = ["value"] if element["type"] == "markdown" else ["label", "description"]
        assert all(element["attributes"][name] for name in needed)


def test_the_commands_of_forms_exist(repository):
    commands = set()
    for path in FORMS:
        for call in re.findall(r"`((?:vrtspike|snakemake) [^`]+)`", path.read_text("utf-8")):
            program, *words = shlex.split(call)
            if program == "snakemake":
                rules = "".join(p.read_text("utf-8") for p in (repository / "rules").glob("*.smk"))
                assert f"rule {words[-1]}:" in rules
                commands.add(words[-1])
            elif words != ["--version"]:
                assert words[0] in COMMANDS
                make_parser().parse_args(words)
                commands.add(words[0])
    assert commands == {"doctor", "data", "check_data"}


def test_the_pages_that_forms_name_exist(repository):
    pages = {
        page for path in FORMS for page in re.findall(r"docs/[\w-]+\.md", path.read_text("utf-8"))
    }
    assert pages
    assert [page for page in sorted(pages) if not (repository / page).is_file()] == []
