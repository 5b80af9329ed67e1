"""A change of a finished project: which stages are reported as stale, and which then run."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.workflow.project import Project

_JOB = re.compile(r"^(?:local)?(?:rule|checkpoint) (\w+):\n((?: {4}.*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """The effects of a change.

    Attributes:
        reasons: stages that ``vrtspike why`` named before the run, each with its reasons.
        ran: stages whose jobs ran to their end.
    """

    reasons: dict[str, str]
    ran: set[str]


def copied(project: Project, folder: Path) -> Project:
    """A copy with all results and what Snakemake knows of them; it can be changed at will."""
    shutil.copytree(project.folder, folder, copy_function=_link_or_copy)
    return Project(folder)


def _link_or_copy(source: str, target: str) -> None:
    # Weights are large, and nothing is ever written into them: they are replaced.
    if source.endswith((".pt", ".safetensors")):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def outcome(project: Project, *arguments: str) -> Outcome:
    """Ask ``vrtspike why``, then run Snakemake to its end and look what it did."""
    reasons = project.why(*arguments)
    logs = _logs(project)
    project.make(*arguments)
    ran = set().union(*(_finished(log.read_text()) for log in _logs(project) - logs))
    return Outcome(reasons, ran)


def _logs(project: Project) -> set[Path]:
    return set((project.folder / ".snakemake/log").glob("*.log"))


def _finished(log: str) -> set[str]:
    """Stages of Snakemake's log, as ``vrtspike why`` names them."""
    done = set(re.findall(r"^Finished jobid: (\d+) ", log, re.MULTILINE))
    stages = set()
    for rule, text in _JOB.findall(log):
        fields = dict(re.findall(r"^ {4}(\w+): (.*)$", text, re.MULTILINE))
        if "output" not in fields:
            continue
        assert fields["jobid"] in done, f"{rule} did not finish\n{log}"
        pairs = [pair.split("=", 1) for pair in fields.get("wildcards", "").split(", ") if pair]
        wildcards = dict(pairs)
        subject = wildcards.get("preset") or wildcards.get("dataset")
        stages.add(f"{rule} {subject}" if subject else rule)
    return stages
