"""No program outlives the process on whose behalf it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from vrtspike.endings import STARTER, lives, name_process

STARTS = """
import os, subprocess, sys
from vrtspike.endings import STARTER, name_process
os.environ[STARTER] = name_process()
program = "from vrtspike.cli import run; import time; "
program += "run(lambda: print('ready', flush=True) or time.sleep(600))"
subprocess.run(["bash", "-c", "set -e; " + sys.argv[1], "bash", sys.executable, program])
"""
"""A process that has a program run by a shell, as Snakemake does."""

BESIDE = """
import sys, time
from vrtspike.cli import run
run(lambda: print("ready", flush=True) or time.sleep(600))
"""


@pytest.mark.parametrize(
    "call", ['exec "$1" -c "$2"', '"$1" -c "$2"; true', '("$1" -c "$2" | cat); true']
)
def test_a_program_ends_with_its_starter_however_many_shells_are_between(call):
    command = [sys.executable, "-c", STARTS, call]
    # Its end closes the pipe: that of the last process which holds it.
    starter = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    assert starter.stdout.readline() == "ready\n"
    starter.kill()
    _, told = starter.communicate(timeout=60)
    assert told == "ended by SIGTERM\n"


def test_a_program_ends_with_the_shell_that_waits_for_it():
    environment = {**os.environ, STARTER: name_process() or ""}
    command = ["bash", "-c", f"{sys.executable} -c '{BESIDE}'; true"]
    shell = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert shell.stdout is not None
    assert shell.stdout.readline() == "ready\n"
    shell.kill()
    assert shell.communicate(timeout=60)[1] == "ended by SIGTERM\n"


def test_a_starter_that_was_gone_before_the_program_began_ends_it():
    gone = subprocess.run(
        [sys.executable, "-c", "from vrtspike.endings import *; print(name_process())"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", BESIDE],
        env={**os.environ, STARTER: gone}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "ended by SIGTERM\n")


@pytest.mark.parametrize("elsewhere", [0, 1])
def test_a_starter_of_another_machine_is_not_looked_for(elsewhere):
    words = (name_process() or "").split()
    words[elsewhere] = "other"
    words[3] = "1"  # here it would be another process
    assert lives(" ".join(words)) is None
    done = subprocess.run(
        [sys.executable, "-c", "from vrtspike.cli import run; run(lambda: 3)"],
        env={**os.environ, STARTER: " ".join(words)},
    )
    assert done.returncode == 3


def test_a_program_that_begins_anew_does_not_end_with_the_shell_it_came_from():
    """A Snakemake that has waited for another one becomes a new one, under ``nohup``, too."""
    program = (
        "import os, sys, threading; from vrtspike.endings import *\n"
        "os.environ[STARTER] = name_process() if sys.argv[1] == 'anew' else sys.argv[1]\n"
        "end_with_starter(); print([each.name for each in threading.enumerate()])"
    )
    waiting = {
        starter: subprocess.check_output([sys.executable, "-c", program, starter], text=True)
        for starter in ("anew", name_process() or "")
    }
    assert ["end_with" in text for text in waiting.values()] == [False, True]


def test_a_process_is_told_from_a_later_one_of_its_number():
    own = name_process()
    assert own is not None
    assert lives(own) is True
    *same, start = own.split()
    assert lives(" ".join([*same, str(int(start) - 1)])) is False


def test_closing_the_terminal_leaves_alone_what_runs_under_nohup():
    program = (
        "import os, signal; from vrtspike.cli import run; "
        "run(lambda: os.kill(os.getpid(), signal.SIGHUP) or 3)"
    )
    plain = subprocess.run([sys.executable, "-c", program])
    kept = subprocess.run(
        [sys.executable, "-c", program],
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert (plain.returncode, kept.returncode) == (128 + signal.SIGHUP, 3)


def test_who_waits_for_another_process_takes_no_signals_from_the_main_thread():
    program = (
        "import os, signal; from vrtspike.endings import end_with; end_with(os.getppid())\n"
        "free = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "os.kill(os.getpid(), signal.SIGTERM); print(free, signal.sigpending())"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert told.stdout == f"set() {{{signal.SIGTERM!r}}}\n"
