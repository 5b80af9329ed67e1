"""Snakemake with our executor beside other versions of its Slurm plugin.

What becomes of jobs on a real cluster is told by tests/endurance.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

PLUGIN = """
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings
common_settings = CommonSettings(
    non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False
)
class Executor(RemoteExecutor):
    pass
"""


def test_other_versions_of_the_slurm_plugin_stop_only_who_asks_for_it(tmp_path):
    """Those here have less than what every executor has."""
    for name in ("snakemake_executor_plugin_slurm", "snakemake_executor_plugin_slurm_jobstep"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(PLUGIN)
    (tmp_path / "Snakefile").write_text("rule all:\n    output: 'a'\n    shell: 'touch {output}'\n")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    def snakemake(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "snakemake", *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
        )

    assert snakemake("--cores", "1").returncode == 0
    assert (tmp_path / "a").exists()
    refused = snakemake("--executor", "slurm-vrtspike", "--jobs", "1", "--forceall")
    assert refused.returncode != 0
    assert re.search(r"does not fit .*pip install 'vrtspike\[slurm\]'", refused.stderr)
