"""Profiles for batch systems; the endurance tests run with them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.helpers.concurrency import run_python, wait_until

SHARED = ("ingest", "voxelize")
"""Rules whose jobs take as many cores as they are given."""


@pytest.fixture(params=["slurm", "generic"])
def profile(request, repository) -> dict[str, Any]:
    return read(repository, request.param)


def read(repository: Path, name: str) -> dict[str, Any]:
    path = repository / "workflow/profiles" / name / "config.yaml"
    document: dict[str, Any] = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return document


def test_every_rule_of_a_profile_exists(profile, repository):
    text = "".join(path.read_text() for path in (repository / "rules").glob("*.smk"))
    rules = set(re.findall(r"^(?:rule|checkpoint) (\w+):", text, re.MULTILINE))
    rule_names = profile["set-threads"].keys() | profile["set-resources"].keys()
    assert rule_names <= rules
    # Without a number these would ask for every core of a machine.
    assert {*SHARED, "train", "evaluate", "reproduce_vrt"} <= profile["set-threads"].keys()
    for resources in (profile["default-resources"], *profile["set-resources"].values()):
        assert "* attempt" in resources["mem_mb"]
    assert not re.search(r"mem_mb=\d", text)  # a rule's own goes before the profile's


BSUB = """\
#!/bin/sh
printf '%s\\n' "$@" > asked
echo 'Job <7> is submitted to queue <long>.'
"""


def test_resources_of_a_job_reach_the_batch_system(repository, tmp_path):
    """All that stands between braces is given, and arrives."""
    profile = read(repository, "generic")
    defaults = profile["default-resources"]
    values = {
        **{f"resources.{name}": str(value).strip("'") for name, value in defaults.items()},
        **{"rule": "train", "jobid": "3", "threads": "6", "resources.mem_mb": "8000"},
        **{"resources.runtime": "95", "resources.gpu": "2", "resources.queue": "long"},
        **{"resources.account": "lab", "resources.batch_extra": "-l 'place=a b'"},
    }
    template = profile["cluster-generic-submit-cmd"]
    quoted = {f"{name}:q": shlex.quote(value) for name, value in values.items()}
    command = re.sub(r"\{([\w.:]+)\}", lambda match: (values | quoted)[match[1]], template)
    (tmp_path / "bsub").write_text(BSUB)
    (tmp_path / "bsub").chmod(0o755)
    (tmp_path / "job.sh").touch()
    words = shlex.split(command)
    assert words[:2] == ["python", "scripts/batch_job.py"]
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = run_python(repository / words[1], *words[2:], "job.sh", cwd=tmp_path, env=path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("lsf:7:")
    request = " ".join((tmp_path / "asked").read_text().split())
    for words_of_lsf in (
        *("-J vrtspike-train-3", "-n 6", "rusage[mem=8000MB]", "-W 95", "-gpu num=2", "-q long"),
        "-P lab -l place=a b",
    ):
        assert words_of_lsf in request, words_of_lsf


BKILL = """\
#!/bin/sh
read line < go
echo "$@" > cancelled
"""


def test_jobs_are_withdrawn_however_long_that_takes(repository, tmp_path):
    """The generic executor kills the program that does it after two seconds."""
    path = repository / read(repository, "generic")["cluster-generic-cancel-cmd"]
    (tmp_path / "bkill").write_text(BKILL)
    (tmp_path / "bkill").chmod(0o755)
    (tmp_path / "scripts").symlink_to(repository / "scripts")
    os.mkfifo(tmp_path / "go")
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([path, "lsf:7:a", "lsf:8:b"], cwd=tmp_path, env=environment, check=True)
    assert not (tmp_path / "cancelled").exists()
    (tmp_path / "go").write_text("now\n")  # it waits for bkill to read
    cancelled = tmp_path / "cancelled"
    wait_until(lambda: cancelled.exists() and cancelled.read_text() == "7 8\n")
