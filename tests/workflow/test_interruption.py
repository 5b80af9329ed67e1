"""Ctrl-C while a job runs: Snakemake waits for it, however often the keys are pressed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.concurrency import wait_until

pytestmark = pytest.mark.workflow

SNAKEFILE = """
from pathlib import Path
from vrtspike.workflow.snakemake_internals import SnakemakeInternals
from vrtspike.workflow.start_checks import begin_run, prepare_process

SNAKEMAKE = SnakemakeInternals(workflow)
prepare_process(SNAKEMAKE)


onstart:
    begin_run(SNAKEMAKE, Path("results"), 0, 1)


rule save:
    output:
        "saved.txt",
    shell:
        "trap '' INT; touch begun; until test -e may_end; do sleep 0.02; done; touch {output}"
"""


def test_pressed_again_it_is_answered_and_the_job_still_ends_in_order(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    output = tmp_path / "output.txt"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--cores", "1"],
            cwd=tmp_path,
            env={**os.environ, "SLURM_CONF": os.devnull},
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_for(path: Path, text: str = "") -> None:
        def happened() -> bool:
            assert process.poll() is None, output.read_text()
            return path.exists() and text in path.read_text()

        wait_until(happened)

    try:
        wait_for(tmp_path / "begun")
        for text in ("Terminating processes on user request", "stopping: running jobs save"):
            os.killpg(process.pid, signal.SIGINT)
            wait_for(output, text)
        assert not (tmp_path / "saved.txt").exists()
        (tmp_path / "may_end").touch()
        assert process.wait(800) == 1
    finally:
        (tmp_path / "may_end").touch()
        process.kill()
        process.wait()
    assert (tmp_path / "saved.txt").exists()
    assert "Traceback" not in output.read_text()
