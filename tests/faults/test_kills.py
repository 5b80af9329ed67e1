"""Signals to every kind of process, at every stage; one plain command then ends as without them."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass

import pytest

from tests.faults.processes import CHECKPOINT, Command, started, stop_at, wait_until_signalled
from tests.faults.results import leftovers, results

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.timeout(1500)]

ALL = "all"
GROUP = "terminal"

INT, TERM, HUP, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL


def strike(command: Command, role: str, number: signal.Signals, which: int = 0) -> None:
    """Send a signal to a process of a role, to all of a terminal, or to all."""
    if role == GROUP:
        os.killpg(command.process.pid, number)
        return
    struck = command.alive() if role == ALL else [command.find(role)[which]]
    for process in struck:
        process.send_signal(number)


def end_of(command: Command) -> str:
    """Wait for a command that was struck, and for all its processes; its output."""
    status = command.wait()
    left = command.orphans()
    assert status != 0, command.text
    assert left == [], command.text
    return command.text


@dataclass(frozen=True)
class Strike:
    """Faults of a training, and the report after each.

    Attributes:
        often: whether it is what happens most: Ctrl-C, too little memory, a lost machine.
    """

    role: str
    number: signal.Signals
    messages: tuple[str, ...]
    often: bool = False


SAVED = "the same command continues from there"
AGAIN = "stopping: running jobs save what they have"
CONTINUE = "continue: snakemake --cores 2 train_tiny"
STRIKES = [
    Strike("snakemake", KILL, (SAVED,), often=True),
    Strike("snakemake", HUP, (SAVED,)),
    Strike(GROUP, INT, (SAVED, CONTINUE), often=True),
    Strike(GROUP, TERM, (SAVED, CONTINUE)),
    Strike(GROUP, HUP, (SAVED,)),
    Strike("launcher", TERM, (SAVED, "run the same command again")),
    Strike("launcher", INT, (SAVED, "run the same command again")),
    Strike("launcher", HUP, (SAVED, "run the same command again")),
    Strike("launcher", KILL, (SAVED, "run the same command again")),
    Strike("rank", TERM, (SAVED, "run the same command again")),
    Strike("rank", INT, (SAVED, "run the same command again")),
    Strike("rank", HUP, (SAVED, "run the same command again")),
    Strike(
        *("rank", KILL),
        ("a process was ended by SIGKILL, as when memory is full", SAVED),
        often=True,
    ),
    Strike("worker", KILL, ("a data loading worker failed", "DATALOADER.TRAIN_WORKERS")),
    Strike(ALL, KILL, (), often=True),
]


@pytest.mark.parametrize(
    "strikes",
    [
        pytest.param(
            [moment for moment in STRIKES if moment.often], id="often", marks=pytest.mark.core
        ),
        pytest.param([moment for moment in STRIKES if not moment.often], id="rarely"),
    ],
)
def test_a_training_ends_as_without_signals(after, undisturbed, strikes):
    project = after("data")
    call = project.command("--cores", "2", "train_tiny")

    def saved_once() -> dict[str, str]:
        """The second checkpoint of a start is not quite there."""
        return stop_at(project.folder, 2, publishes=CHECKPOINT)

    for moment in strikes:
        with started(project, *call, environment=saved_once()) as command:
            with command.held("rank"):
                (rank,) = command.find("rank")
                strike(command, moment.role, moment.number)
                if moment.role != "worker":  # the rank finds that out by itself
                    wait_until_signalled(rank)
            output = end_of(command)
        for text in moment.messages:
            assert text in output, (moment, output)
    with started(project, *call, "--retries", "1", environment=saved_once()) as command:
        with command.held("rank"):
            for number in (INT, TERM, HUP):
                strike(command, "worker", number)  # it is ignored
            strike(command, "rank", KILL)
        assert command.wait() == 0, command.text
        assert "train tiny is retried" in command.text
    result = results(project.folder)
    assert result == {name: undisturbed.results[name] for name in result}
    assert "train/tiny/weights.safetensors" in result
    (run,) = (project.folder / "runs").glob("*/*/run.json")
    starts = json.loads(run.read_text())["starts"]
    assert len(starts) == len(strikes) + 2
    steps = [start["step"] for start in starts]
    assert steps == sorted(steps)
    assert steps[1:] == sorted({*steps[1:]}), "each start has gone further"


def test_ctrl_c_pressed_again_while_a_training_saves_changes_nothing(after):
    project = after("data")
    call = project.command("--cores", "2", "train_tiny")
    event = stop_at(project.folder, 2, publishes=CHECKPOINT)
    with started(project, *call, environment=event) as command:
        with command.held("rank"):
            (rank,) = command.find("rank")
            strike(command, GROUP, INT)
            wait_until_signalled(rank)
            # Snakemake has taken notice of the first when it says so of another.
            while AGAIN not in command.text:
                strike(command, GROUP, INT)
                time.sleep(0.2)
        output = end_of(command)
    assert "Traceback" not in output
    assert SAVED in output
    assert CONTINUE in output
    assert leftovers(project.folder) == []
    project.make("train_tiny", "--config", "SET=TRAIN.MAX_STEPS=4")


PROGRAMS = {
    "survey": "data/tiny/survey.json",
    "ingest": "data/tiny/ingest/shards/0-of-1.json",
    "alignment_table": "data/tiny/alignment.csv",
    "accept": "data/tiny/k8/accepted.json",
    "voxelize": "data/tiny/k8/shards/0-of-1.json",
    "dataset_statistics": "data/tiny/k8/dataset.json",
    "launch_training": "train/tiny/weights.safetensors",
    "evaluate": "evaluate/tiny/summary.json",
    "analyze_performance": "performance/tiny/findings.json",
    "compare": "compare/table.csv",
    "report_page": "index.html",
    "nested": "report.html",
}
"""The programs of the way from raw files to the report, and what each makes last."""


def test_every_stage_is_done_as_without_signals(after, undisturbed):
    project = after("raw data")
    for number, (program, target) in enumerate(PROGRAMS.items()):
        end_signal = (TERM, INT, HUP)[number // 2 % 3]
        signals = (KILL, end_signal) if number % 2 else (end_signal, KILL)
        call = project.command("--cores", "2", "--", f"results/{target}")
        for struck, signal_ in zip((program, "snakemake"), signals, strict=True):
            if struck == "snakemake" and signal_ != KILL:
                struck = GROUP  # asked alone, Snakemake waits for its jobs
            event = stop_at(project.folder, begins=program)
            with started(project, *call, environment=event) as command:
                with command.held(program):
                    strike(command, struck, signal_)
                end_of(command)
    project.make("all")
    assert results(project.folder) == undisturbed.results
