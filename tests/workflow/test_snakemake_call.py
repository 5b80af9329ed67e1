"""Calls of Snakemake from a program: lines, steps, failures and an interruption."""

from __future__ import annotations

import contextlib
import os
import sys

import pytest

from vrtspike.system.errors import RunError
from vrtspike.workflow import snakemake_call
from vrtspike.workflow.run_view import COMMAND_VARIABLE
from vrtspike.workflow.snakemake_call import run_snakemake, snakemake_command

PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, lambda *_: (print("saved", flush=True), sys.exit(0)))
print("command:", os.environ["VRTSPIKE_COMMAND"], *sys.argv[1:])
print("[train] step 3/9 | loss 0.1", flush=True)
if "wait" in sys.argv:
    signal.pause()
print("error: no data", file=sys.stderr)
sys.exit("fail" in sys.argv)
"""
"""Takes the place of Snakemake."""


@pytest.fixture
def steps(monkeypatch) -> list[tuple[int, int]]:
    """The steps that the progress bar shows; the program above runs instead of Snakemake."""
    steps: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def bar(title):
        yield lambda *done: steps.append(done)

    def command(*words):
        return [sys.executable, "-c", PROGRAM, *words]

    monkeypatch.setattr(snakemake_call, "progress_bar", bar)
    monkeypatch.setattr(snakemake_call, "snakemake_command", command)
    return steps


def test_lines_are_printed_and_steps_move_the_bar(steps, capsys):
    run_snakemake(["target"], "train tiny", "train('tiny')")
    assert capsys.readouterr().out.splitlines() == [
        "command: train('tiny') target",
        "error: no data",
    ]
    assert steps == [(3, 9)]
    assert COMMAND_VARIABLE not in os.environ


def test_a_failure_is_an_error(steps):
    with pytest.raises(RunError, match="train tiny: Snakemake ended with exit status 1"):
        run_snakemake(["fail"], "train tiny", "")


def test_an_interruption_reaches_snakemake_and_waits_for_it(steps, capsys, monkeypatch):
    @contextlib.contextmanager
    def bar(title):
        def interrupt(done, total):
            raise KeyboardInterrupt

        yield interrupt

    monkeypatch.setattr(snakemake_call, "progress_bar", bar)
    with pytest.raises(KeyboardInterrupt):
        run_snakemake(["wait"], "train tiny", "")
    assert capsys.readouterr().out.splitlines()[-1] == "saved"


def test_the_snakefile_of_the_folder_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--snakefile" in snakemake_command("all")
    (tmp_path / "Snakefile").touch()
    assert snakemake_command("all")[1:] == ["-m", "snakemake", "--logger=vrtspike", "all"]


def test_python_without_snakemake_is_refused(monkeypatch):
    monkeypatch.setattr(snakemake_call.importlib.util, "find_spec", lambda name: None)
    command = r"pip install 'vrtspike\[workflow\]'"
    with pytest.raises(RunError, match=rf"no Snakemake in this Python, .*{command}"):
        snakemake_command("all")
