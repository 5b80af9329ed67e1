"""What the profiles for batch systems say; the endurance tests run with them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

SHARED = ("ingest", "voxelize")
"""Rules whose jobs take as many cores as they are given."""
LOCAL = "    localrule: True\n"


@pytest.fixture(params=["slurm", "generic"])
def profile(request, repository) -> dict[str, Any]:
    return read(repository, request.param)


def read(repository: Path, name: str) -> dict[str, Any]:
    path = repository / "workflow/profiles" / name / "config.yaml"
    found: dict[str, Any] = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return found


def test_a_job_that_was_stopped_is_continued_and_none_stands_in_the_way(profile):
    assert profile["retries"] >= 1
    assert profile["rerun-incomplete"]
    assert profile["nolock"]
    # A network file system shows results late.
    assert profile["latency-wait"] >= 10


def test_what_a_rule_is_given_is_given_to_a_rule(profile, repository):
    text = "".join(path.read_text() for path in (repository / "rules").glob("*.smk"))
    rules = set(re.findall(r"^(?:rule|checkpoint) (\w+):", text, re.MULTILINE))
    given = profile["set-threads"].keys() | profile["set-resources"].keys()
    assert given <= rules
    # Without a number these would ask for every core of a machine.
    assert {*SHARED, "train", "evaluate"} <= profile["set-threads"].keys()


def test_a_short_job_is_asked_for_soon(repository):
    """After its end it waits for half of this. Where Slurm limits questions, two a second pass."""
    assert read(repository, "slurm")["slurm-vrtspike-init-seconds-before-status-checks"] == 1


def test_what_takes_seconds_is_no_job_of_a_cluster(repository):
    """It would wait for minutes in a queue."""
    text = "".join(path.read_text() for path in (repository / "rules").glob("*.smk"))
    parts = re.split(r"^(?:rule|checkpoint) (\w+):\n", text, flags=re.MULTILINE)
    here = {name for name, body in zip(parts[1::2], parts[2::2], strict=True) if LOCAL in body}
    assert {"survey", "alignment", "accept", "statistics"} <= here
    assert here.isdisjoint({"ingest", "voxelize", "train", "evaluate"})


def test_every_job_has_bounds(profile):
    defaults = profile["default-resources"]
    # Snakemake measures all inputs for a missing one.
    assert {"mem_mb", "disk_mb", "runtime"} <= defaults.keys()
    for rule in ("train", "evaluate"):
        given = profile["set-resources"][rule]
        assert given["mem_mb"] > defaults["mem_mb"]
        assert given["runtime"] > defaults["runtime"]


def test_slurm_asks_a_training_to_stop_before_it_is_killed(repository):
    given = read(repository, "slurm")["set-resources"]["train"]["slurm_extra"]
    found = re.fullmatch(r"'--signal=TERM@(\d+)'", given)
    assert found is not None
    assert int(found[1]) >= 60


BSUB = """\
#!/bin/sh
printf '%s\\n' "$@" > asked
echo 'Job <7> is submitted to queue <long>.'
"""


def test_what_a_job_asks_for_reaches_the_batch_system(repository, tmp_path):
    """All that stands between braces is given, and arrives."""
    profile = read(repository, "generic")
    defaults = profile["default-resources"]
    values = {
        **{f"resources.{name}": str(value).strip("'") for name, value in defaults.items()},
        **{"rule": "train", "jobid": "3", "threads": "6", "resources.mem_mb": "8000"},
        **{"resources.runtime": "95", "resources.gpu": "2", "resources.queue": "long"},
        **{"resources.account": "lab"},
    }
    template = profile["cluster-generic-submit-cmd"]
    command = re.sub(r"\{([\w.]+)\}", lambda found: values[found[1]], template)
    (tmp_path / "bsub").write_text(BSUB)
    (tmp_path / "bsub").chmod(0o755)
    (tmp_path / "job.sh").touch()
    words = shlex.split(command)
    assert words[:2] == ["python", "scripts/batch_job.py"]
    done = subprocess.run(
        [sys.executable, repository / words[1], *words[2:], "job.sh"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("lsf:7:")
    asked = " ".join((tmp_path / "asked").read_text().split())
    for words_of_lsf in (
        *("-J vrtspike-train-3", "-n 6", "rusage[mem=8000MB]", "-W 95", "-gpu num=2", "-q long"),
        "-P lab",
    ):
        assert words_of_lsf in asked, words_of_lsf
