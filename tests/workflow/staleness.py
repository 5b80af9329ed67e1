"""A change of a finished project: what is said that it makes stale, and what then really runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.workflow.project import Project

_JOB = re.compile(r"^(?:local)?(?:rule|checkpoint) (\w+):\n((?: {4}.*\n)+)", re.MULTILINE)
_UNSEEN = ("logs", "benchmarks")


@dataclass(frozen=True)
class Outcome:
    """What a change led to.

    Attributes:
        told: stages that ``vrtspike why`` named before, each with its reasons.
        ran: stages whose jobs ran to their end.
        written: results that are other files now, or new; stores as a whole.
        output: what the run showed.
    """

    told: dict[str, str]
    ran: set[str]
    written: set[str]
    output: str


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
    told = why(project, *arguments)
    before, logs = _results(project), _logs(project)
    output = project.make(*arguments)
    ran = set().union(*(_finished(log.read_text()) for log in _logs(project) - logs))
    written = {name for name, file in _results(project).items() if before.get(name) != file}
    return Outcome(told, ran, written, output)


def why(project: Project, *arguments: str) -> dict[str, str]:
    """Stages that ``vrtspike why`` names, and its reasons."""
    done = subprocess.run(
        [sys.executable, "-m", "vrtspike", "why", *arguments],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("together ")]
    if lines == ["nothing to be done"]:
        return {}
    stages = [line.partition(": ") for line in lines]
    return {title.partition(" (")[0]: reason for title, _, reason in stages}


def _logs(project: Project) -> set[Path]:
    return set((project.folder / ".snakemake/log").glob("*.log"))


def _finished(log: str) -> set[str]:
    """Stages of Snakemake's log, as ``vrtspike why`` names them."""
    done = set(re.findall(r"^Finished jobid: (\d+) ", log, re.MULTILINE))
    found = set()
    for rule, text in _JOB.findall(log):
        fields = dict(re.findall(r"^ {4}(\w+): (.*)$", text, re.MULTILINE))
        if "output" not in fields:
            continue
        assert fields["jobid"] in done, f"{rule} did not finish\n{log}"
        pairs = [pair.split("=", 1) for pair in fields.get("wildcards", "").split(", ") if pair]
        wildcards = dict(pairs)
        subject = wildcards.get("preset") or wildcards.get("dataset")
        found.add(f"{rule} {subject}" if subject else rule)
    return found


def _results(project: Project) -> dict[str, tuple[int, int]]:
    """Inode and date of every result, of a store that of its folder."""
    found = {}
    top = project.folder / "results"
    for folder, names, files in os.walk(top):
        inside = Path(folder)
        stores = [name for name in names if name.endswith(".zarr")]
        hidden = _UNSEEN if inside == top else ()
        names[:] = [name for name in names if name not in stores and name not in hidden]
        for name in [*stores, *files]:
            status = (inside / name).stat()
            path = (inside / name).relative_to(top)
            if path.suffix != ".lock":
                found[path.as_posix()] = (status.st_ino, status.st_mtime_ns)
    return found
