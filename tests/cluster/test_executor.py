"""Snakemake with our executor beside other versions of its Slurm plugin.

What becomes of jobs on a real cluster is told by tests/endurance.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from types import SimpleNamespace

import pytest

from snakemake_executor_plugin_slurm_vrtspike import LOWEST_VERSION, PLUGIN_NAME, executor
from tests.helpers.concurrency import run_python

PLUGIN = """
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings
common_settings = CommonSettings(
    non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False
)
class Executor(RemoteExecutor):
    pass
"""


METADATA = "Metadata-Version: 2.1\nName: snakemake-executor-plugin-slurm\nVersion: {}\n"


@pytest.mark.parametrize(
    ("version", "fault"),
    [("2.7.1", "2.7.1 is installed, 2.8 or newer is needed"), ("99.0", "cannot import name")],
)
def test_other_versions_of_the_slurm_plugin_stop_only_its_users(tmp_path, version, fault):
    """The package here has less than what every executor has, whichever version it says it is."""
    metadata = tmp_path / f"snakemake_executor_plugin_slurm-{version}.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text(METADATA.format(version))
    for name in ("snakemake_executor_plugin_slurm", "snakemake_executor_plugin_slurm_jobstep"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(PLUGIN)
    (tmp_path / "Snakefile").write_text("rule all:\n    output: 'a'\n    shell: 'touch {output}'\n")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    def snakemake(*options: str) -> subprocess.CompletedProcess[str]:
        return run_python("-m", "snakemake", *options, cwd=tmp_path, env={"PYTHONPATH": paths})

    assert snakemake("--cores", "1").returncode == 0
    assert (tmp_path / "a").exists()
    refused = snakemake("--executor", "slurm-vrtspike", "--jobs", "1", "--forceall")
    assert refused.returncode != 0
    assert re.search(rf"does not fit \({fault}.*pip install 'vrtspike\[slurm\]'", refused.stderr)


def test_the_lowest_version_is_that_of_the_package(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    (wanted,) = project["optional-dependencies"]["slurm"]
    assert wanted == f"{PLUGIN_NAME}>={LOWEST_VERSION}"


def test_a_job_that_slurm_lists_again_is_unknown_only_since_then(monkeypatch):
    """A controller that has just begun again may not list all jobs yet."""
    slurm = object.__new__(executor.Executor)  # the constructor starts a thread that asks Slurm
    slurm._restarts, slurm._unlisted, slurm._results = {}, {}, {1: {}}
    slurm.workflow = SimpleNamespace(execution_settings=SimpleNamespace(latency_wait=5))
    job = SimpleNamespace(external_jobid="12", job=SimpleNamespace(jobid=1, output=["absent"]))
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(executor.time, "monotonic", lambda: clock.now)
    states = []
    for now, answer in ((0.0, None), (50.0, executor._Answer("RUNNING")), (100.0, None)):
        clock.now = now
        states.append(slurm._is_active(job, answer))
    assert states == [True, True, True]
    clock.now = 200.0
    assert slurm._state_by_results(job) == "LOST"
