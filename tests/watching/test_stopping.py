"""A request to stop that only Snakemake receives reaches what its shells run."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from vrtspike.watching import stopping

SNAKEMAKE = """
import signal, subprocess, sys
from vrtspike.watching.stopping import hand_on_stops
hand_on_stops()
# What a scheduler does: it notes the request, and waits for its jobs.
signal.signal(signal.SIGTERM, lambda *_: print("noted", flush=True))
signal.signal(signal.SIGINT, lambda *_: None)
job = subprocess.Popen(["bash", "-c", sys.argv[1]], start_new_session=True)
sys.exit(0 if job.wait() else 3)
"""

PROGRAM = (
    "import time; from vrtspike.cli import run; "
    "run(lambda: print(chr(114), flush=True) or time.sleep(600))"
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("call", ["exec {}", "{}; exit $?"])
def test_a_request_is_handed_on(number, call):
    command = call.format(f"{sys.executable} -c '{PROGRAM}'")
    snakemake = subprocess.Popen(
        [sys.executable, "-c", SNAKEMAKE, command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert snakemake.stdout is not None
    assert snakemake.stdout.readline() == "r\n"
    snakemake.send_signal(number)
    said, told = snakemake.communicate(timeout=60)
    assert told == "ended by SIGTERM\n"
    assert snakemake.returncode == 0
    assert said == ("" if number == signal.SIGINT else "noted\n")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (signal.SIGINT, [stopping.GRACE_S, "asked"]),
        (signal.SIGTERM, ["asked"]),
        (signal.SIGCHLD, []),
    ],
)
def test_what_a_terminal_has_asked_is_asked_again_only_later(monkeypatch, number, expected):
    # Seconds that pass would show it only on a machine that is never busy.
    happened: list[object] = []
    monkeypatch.setattr(stopping.time, "sleep", happened.append)
    monkeypatch.setattr(stopping, "ask_programs", lambda snakemake: happened.append("asked"))
    reading, writing = socket.socketpair()
    with reading, writing:
        writing.send(bytes([number]))
        writing.shutdown(socket.SHUT_WR)
        stopping._listen(reading)
    assert happened == expected


def test_without_a_terminal_it_goes_on_when_that_is_closed():
    snakemake = subprocess.Popen(
        [sys.executable, "-c", SNAKEMAKE, "echo r; read line; exit 1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert snakemake.stdout is not None
    assert snakemake.stdout.readline() == "r\n"
    snakemake.send_signal(signal.SIGHUP)
    said, _ = snakemake.communicate("done\n", timeout=60)
    assert (snakemake.returncode, said) == (0, "")
