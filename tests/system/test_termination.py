"""No job outlives its Snakemake."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.helpers.concurrency import run_python
from vrtspike.system.termination import SNAKEMAKE_PROCESS_VARIABLE, is_running, process_identity

PROGRAM = """
import time
from vrtspike.system.program import run_main
run_main(lambda: print("ready", flush=True) or time.sleep(600))
"""
STARTS = """
import os, subprocess, sys
from vrtspike.system.termination import SNAKEMAKE_PROCESS_VARIABLE, process_identity
os.environ[SNAKEMAKE_PROCESS_VARIABLE] = process_identity()
subprocess.run(["bash", "-c", "set -e; " + sys.argv[1], "bash", sys.executable, sys.argv[2]])
"""
"""A process that has a program run by a shell, as Snakemake does."""


IN_A_SHELL = [sys.executable, "-c", STARTS]


@pytest.mark.parametrize(
    "command",
    [
        [*IN_A_SHELL, 'exec "$1" -c "$2"', PROGRAM],
        [*IN_A_SHELL, '"$1" -c "$2"; true', PROGRAM],
        [*IN_A_SHELL, '("$1" -c "$2" | cat); true', PROGRAM],
        # The shell dies that waits for the job.
        ["bash", "-c", '"$0" -c "$1"; true', sys.executable, PROGRAM],
    ],
)
def test_a_job_ends_with_its_snakemake_or_a_shell_in_between(command):
    """Kill the process that was started, and see its job end."""
    environment = {**os.environ, SNAKEMAKE_PROCESS_VARIABLE: process_identity() or ""}
    # The end of the program closes the pipe: that of the last process which holds it.
    started = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    started.kill()
    assert started.communicate(timeout=800)[1] == "ended by SIGTERM\n"


@pytest.mark.parametrize(("place", "status"), [(0, 3), (1, 3), (3, 128 + signal.SIGTERM)])
def test_a_job_of_a_dead_snakemake_ends_and_one_of_another_machine_does_not(place, status):
    words = (process_identity() or "").split()
    assert is_running(" ".join(words)) is True
    words[place] = "1"
    words[3] = "1"  # here it is another process
    assert is_running(" ".join(words)) is (False if place == 3 else None)
    program = "from vrtspike.system.program import run_main; run_main(lambda: 3)"
    done = run_python("-c", program, env={SNAKEMAKE_PROCESS_VARIABLE: " ".join(words)})
    assert done.returncode == status


def test_a_process_whose_name_ends_within_a_character_has_an_identity():
    """The kernel keeps 15 bytes of a name: here two of the three bytes of its last character."""
    program = (
        "import pathlib; from vrtspike.system.termination import process_identity\n"
        "pathlib.Path('/proc/self/comm').write_text('a数据恢复训练', encoding='utf-8')\n"
        "print(process_identity())"
    )
    done = run_python("-c", program)
    assert len(done.stdout.split()) == 4, done.stderr


def test_a_snakemake_that_restarts_itself_does_not_end_with_its_former_shell():
    """A Snakemake that has waited for another one becomes a new one, under ``nohup``, too."""
    program = (
        "import os, sys, threading; from vrtspike.system.termination import *\n"
        "given = sys.argv[1]\n"
        "os.environ[SNAKEMAKE_PROCESS_VARIABLE] = process_identity() if given == 'own' else given\n"
        "exit_with_snakemake(); print([each.name for each in threading.enumerate()])"
    )
    for starter, waits in (("own", False), (process_identity(), True)):
        assert ("exit_with" in run_python("-c", program, starter).stdout) == waits


@pytest.mark.parametrize(
    ("handler", "status"), [(signal.SIG_DFL, 128 + signal.SIGHUP), (signal.SIG_IGN, 3)]
)
def test_sighup_ends_a_program_except_under_nohup(handler, status):
    program = (
        "import os, signal; from vrtspike.system.program import run_main; "
        "run_main(lambda: os.kill(os.getpid(), signal.SIGHUP) or 3)"
    )
    done = run_python("-c", program, preexec_fn=lambda: signal.signal(signal.SIGHUP, handler))
    assert done.returncode == status


def test_a_program_bound_to_a_dead_process_ends_at_once():
    with subprocess.Popen(["true"]) as gone:
        pass
    program = (
        "from vrtspike.system.termination import exit_with_process\n"
        f"exit_with_process({gone.pid}); print('on')"
    )
    done = run_python("-c", program)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "")
