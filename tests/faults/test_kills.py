"""Signals to every kind of process, at every stage; one plain command then ends as without them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import pytest

from tests.faults.processes import Command, started
from tests.faults.results import leftovers, results
from tests.workflow.project import Project

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.timeout(1500)]

END_S = 30.0
"""By then nothing is left of a command; on an idle machine it takes 3 s."""

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
    """Wait for a command that was struck, and for all its processes; what it said."""
    status = command.wait()
    left = command.orphans(END_S)
    assert status != 0, command.text
    assert left == [], command.text
    return command.text


def record(project: Project) -> dict:
    """``run.json`` of the project's only run; empty before it has begun."""
    found = [*(project.folder / "runs").glob("*/*/run.json")]
    return json.loads(found[0].read_text()) if found else {}


def has_trained(project: Project, starts: int, steps: int) -> Callable[[], bool]:
    """Whether the next start of a training has made some steps: of three, two are saved."""

    def told() -> bool:
        run = record(project)
        if len(run.get("starts", [])) <= starts:
            return False
        first = run["starts"][-1]["step"]
        logs = (project.folder / "runs").glob("*/*/metrics.jsonl")
        text = "".join(log.read_text() for log in logs)
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        made = [json.loads(line)["step"] for line in lines if '"kind": "train"' in line]
        return bool(made) and made[-1] >= first + steps

    return told


@dataclass(frozen=True)
class Strike:
    """What happens to a training, and what is then said."""

    role: str
    number: signal.Signals
    said: tuple[str, ...]


SAVED = "the same command continues from there"
CONTINUE = "continue: snakemake --cores 2 train_tiny"
STRIKES = [
    Strike("snakemake", TERM, (SAVED, CONTINUE)),
    Strike("snakemake", KILL, (SAVED,)),
    Strike("snakemake", INT, (SAVED, CONTINUE)),
    Strike(GROUP, INT, (SAVED, CONTINUE)),
    Strike(GROUP, HUP, (SAVED, CONTINUE)),
    Strike("launcher", TERM, (SAVED, "give the same command again")),
    Strike("launcher", KILL, (SAVED, "give the same command again")),
    Strike("torchrun", KILL, ("training failed: torchrun was ended by SIGKILL", SAVED)),
    Strike("rank", TERM, (SAVED, "give the same command again")),
    Strike(
        "rank", KILL, ("one of its processes was ended by SIGKILL, as when memory is full", SAVED)
    ),
    Strike("worker", KILL, ("a process that loads data has ended", "DATALOADER.TOTAL_WORKERS")),
    Strike(ALL, KILL, ()),
]


def test_a_training_ends_as_without_signals(after, undisturbed):
    project = after("data")
    call = project.command("--cores", "2", "train_tiny")
    for starts, each in enumerate(STRIKES):
        with started(project, *call) as command:
            command.wait_for(has_trained(project, starts, 3))
            strike(command, each.role, each.number)
            said = end_of(command)
        for text in each.said:
            assert text in said, (each, said)
    with started(project, *call, "--retries", "1") as command:
        command.wait_for(has_trained(project, len(STRIKES), 1))
        ignored = [(role, n) for role in ("torchrun", "worker") for n in (INT, TERM, HUP)]
        for role, number in ignored:
            strike(command, role, number)
        strike(command, "rank", signal.SIGSTOP)
        (rank,) = command.find("rank")
        command.wait_for(lambda: rank.status() == psutil.STATUS_STOPPED)
        strike(command, "rank", signal.SIGCONT)
        command.wait_for(has_trained(project, len(STRIKES), 3))
        strike(command, "rank", KILL)
        assert command.wait() == 0, command.text
        assert "train tiny is tried again" in command.text
    project.make("all")
    assert results(project.folder) == undisturbed.results
    assert leftovers(project.folder) == []
    starts = record(project)["starts"]
    assert len(starts) == len(STRIKES) + 2
    steps = [start["step"] for start in starts]
    assert steps == sorted(steps)
    assert steps[1:] == sorted({*steps[1:]}), "each start has gone further"


PAIR = {"CUDA_VISIBLE_DEVICES": "no-such-gpu-a,no-such-gpu-b"}
"""Two devices that are not there: two processes, on the CPU."""


def test_two_processes_end_as_without_signals(after, tmp_path):
    project = after("data")
    project.write("config/presets/pair.yaml", "BASE: tiny\nTRAIN: {MAX_STEPS: 40}\n")
    call = project.command("--cores", "2", "train_pair", "--config", "GPUS=2")
    with started(project, *call, environment=PAIR) as command:
        assert command.wait() == 0, command.text
    expected = results(project.folder, "pair")
    for name in ("runs/pair", "results/train/pair"):
        (project.folder / name).rename(tmp_path / name.replace("/", "-"))
    for starts, which in enumerate([1, 0]):
        with started(project, *call, environment=PAIR) as command:
            command.wait_for(has_trained(project, starts, 3))
            strike(command, "rank", KILL, which)
            assert "one of its processes was ended by SIGKILL" in end_of(command)
    with started(project, *call, environment=PAIR) as command:
        command.wait_for(has_trained(project, 2, 1))
        strike(command, "rank", signal.SIGSTOP, 1)
        time.sleep(0.5)  # the other waits for it
        strike(command, "rank", signal.SIGCONT, 1)
        assert command.wait() == 0, command.text
    assert results(project.folder, "pair") == expected
    assert leftovers(project.folder) == []


PROGRAMS = {
    "survey": "data/tiny/survey.json",
    "ingest": "data/tiny/ingest/shares/0-of-1.json",
    "alignment_table": "data/tiny/alignment.csv",
    "accept": "data/tiny/k8/accepted.json",
    "voxelize": "data/tiny/k8/shares/0-of-1.json",
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
        asked = (TERM, INT, HUP)[number // 2 % 3]
        signals = (KILL, asked) if number % 2 else (asked, KILL)
        call = project.command("--cores", "2", "--", f"results/{target}")
        for struck, signal_ in zip((program, "snakemake"), signals, strict=True):
            with started(project, *call) as command:
                command.wait_for(lambda program=program: command.find(program))
                strike(command, struck, signal_)
                end_of(command)
    project.make("all")
    assert results(project.folder) == undisturbed.results
    assert leftovers(project.folder) == []


def test_an_evaluation_in_mid_work_leaves_nothing_half(after, undisturbed):
    project = after("training")
    pictures = project.folder / "results/evaluate/tiny/pictures"
    call = project.command("--cores", "2", "all", "--forcerun", "evaluate")
    for role, number in (("evaluate", KILL), ("evaluate", TERM), ("snakemake", TERM), (ALL, KILL)):
        with started(project, *call) as command:
            # Snakemake removes the previous ones before the program begins.
            command.wait_for(lambda: command.find("evaluate") and not any(pictures.glob("*.png")))
            command.wait_for(lambda: any(pictures.glob("*.png")))
            strike(command, role, number)
            end_of(command)
        call = project.command("--cores", "2", "all")
    project.make("all")
    assert results(project.folder) == undisturbed.results
    assert leftovers(project.folder) == []
