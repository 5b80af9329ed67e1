"""Uses of Snakemake beyond its documented interface, tested by a real run.

It runs with the Snakemake that is installed: `make test` has the newest that pyproject.toml allows,
`make compat` the lowest (requirements-lowest.lock).
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.concurrency import run_python
from vrtspike.workflow import snakemake_internals

pytestmark = pytest.mark.workflow

HANG_S = 300

SNAKEFILE = """
import json
from pathlib import Path
from vrtspike.workflow.snakemake_internals import SnakemakeInternals

SNAKEMAKE = SnakemakeInternals(workflow)


def evaluate_devices(wildcards):
    return len(SNAKEMAKE.due_jobs())


def forced(wildcards):
    SNAKEMAKE.force_rerun("first.txt", "it is damaged")
    return []


rule all:
    input:
        "second-a.txt",


rule first:
    input:
        forced,
    output:
        "first.txt",
    shell:
        "echo made > {output}"


rule second:
    input:
        "first.txt",
    output:
        "second-{name}.txt",
    params:
        dry=lambda wildcards, resources: SNAKEMAKE.is_dry_run,
    resources:
        due=evaluate_devices,
    shell:
        "echo {resources.due} > {output}"


onstart:
    found = dict(
        is_main=SNAKEMAKE.is_main,
        cores=SNAKEMAKE.cores,
        is_dry_run=SNAKEMAKE.is_dry_run,
        runs_locally=SNAKEMAKE.runs_locally,
        config=SNAKEMAKE.config_arguments,
        due=SNAKEMAKE.due_jobs(),
    )
    Path("found.json").write_text(json.dumps(found))
"""


def snakemake(folder: Path, *arguments: str) -> dict:
    """Run the workflow; returns what it wrote down before its first job."""
    (folder / "Snakefile").write_text(SNAKEFILE)
    command = ("-m", "snakemake", "--cores", 2, *arguments)
    done = run_python(*command, cwd=folder, env={"SLURM_CONF": os.devnull})
    assert done.returncode == 0, done.stderr
    record: dict = json.loads((folder / "found.json").read_text())
    return record


def test_every_internal_name_works(tmp_path):
    result = snakemake(tmp_path, "--config", "ABC={B: 3}", "--forcerun", "second")
    assert (result["is_main"], result["is_dry_run"], result["runs_locally"]) == (True, False, True)
    assert result["cores"] == 2
    assert result["config"] == ["ABC={B: 3}"]
    due = [["first", {}, ["first.txt"]]]
    due.append(["second", {"name": "a"}, ["second-a.txt"]])
    assert sorted(job for job in result["due"] if job[0] != "all") == due
    # A file that is there is made again because it is forced.
    (tmp_path / "first.txt").write_text("as before")
    snakemake(tmp_path, "--forceall")
    assert (tmp_path / "first.txt").read_text() == "made\n"
    (tmp_path / "first.txt").write_text("as before")
    assert snakemake(tmp_path)["config"] == []
    assert (tmp_path / "first.txt").read_text() == "made\n"


TERMINATED = """
import os
import signal
from vrtspike.workflow.snakemake_internals import SnakemakeInternals
from vrtspike.workflow.start_checks import prepare_process

prepare_process(SnakemakeInternals(workflow))


def after_checkpoint(wildcards):
    checkpoints.first.get()  # raises until the checkpoint has run
    # Snakemake calls this in its main thread while it holds the scheduler's lock.
    os.kill(os.getpid(), signal.SIGTERM)
    return "first.txt"


rule all:
    input:
        "second.txt",


checkpoint first:
    output:
        "first.txt",
    shell:
        "touch {output}"


rule second:
    input:
        after_checkpoint,
    output:
        "second.txt",
    shell:
        "cp {input} {output}"
"""


def test_sigterm_while_the_scheduler_holds_its_lock_ends_the_run(tmp_path):
    (tmp_path / "Snakefile").write_text(TERMINATED)
    command = [sys.executable, "-m", "snakemake", "--cores", "1"]
    environment = {**os.environ, "SLURM_CONF": os.devnull}
    # The limit only ends a process that hangs.
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_S
    )
    assert (tmp_path / "first.txt").is_file(), done.stderr
    assert "Will exit after finishing currently running jobs" in done.stderr
    assert done.returncode != 0


KEPT = """
from vrtspike.workflow.snakemake_internals import SnakemakeInternals
from vrtspike.workflow.start_checks import prepare_process

prepare_process(SnakemakeInternals(workflow))


rule first:
    output:
        update("first.txt"),
    shell:
        "exit 1"
"""


def test_an_output_of_a_failed_job_is_not_touched(tmp_path):
    (tmp_path / "Snakefile").write_text(KEPT)
    result = tmp_path / "first.txt"
    result.write_text("made before")
    os.utime(result, ns=(10**18, 10**18))
    before = result.stat()
    command = ("-m", "snakemake", "--cores", 1, "--forceall")
    done = run_python(*command, cwd=tmp_path, env={"SLURM_CONF": os.devnull})
    assert done.returncode == 1
    assert result.read_text() == "made before"
    assert (result.stat().st_ino, result.stat().st_mtime_ns) == (before.st_ino, 10**18)
    assert list((tmp_path / ".snakemake").rglob("*.txt")) == []


def test_they_are_few_and_stand_in_one_module(repository):
    source = inspect.getsource(snakemake_internals)
    names = set(re.findall(r"(?:_workflow|dag|settings)\.((?:dag\.)?\w+)", source)) - {"dag"}
    assert len(names) <= 17, names
    for path in [*(repository / "rules").rglob("*.smk"), repository / "workflow/Snakefile"]:
        attributes = re.findall(r"(?<![./])\bworkflow\.([a-z_]+)", path.read_text(encoding="utf-8"))
        assert set(attributes) <= {"configfiles"}, path
