"""Trainings of a few steps, one after the other, in a folder that is removed again."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vrtspike.cluster.signals import EXIT_INTERRUPTED
from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import RunError
from vrtspike.monitoring.records import iter_records
from vrtspike.runs.folder import latest_run, read_record
from vrtspike.runs.names import LOGS, MEMORY, TIMING_OF_STARTS
from vrtspike.system.processes import stop_with_parent

PROGRAM = Path("scripts/launch_training.py")
"""The launcher, in the project's folder."""

_PRESET = "timed"
_POLL_S = 0.2
_LAST_LINES = 15


@dataclass(frozen=True)
class BenchmarkSide:
    """One of the two settings that are compared.

    Attributes:
        name: for messages.
        settings: complete, from :func:`vrtspike.analysis.benchmark.timing_settings`.
        dataset: the dataset manifest.
    """

    name: str
    settings: RunSettings
    dataset: Path


@dataclass(frozen=True)
class Length:
    """Numbers of turns and steps.

    Attributes:
        turns: of each setting.
        steps: timed steps of a turn.
        warm_up: steps before them, which are not timed.
    """

    turns: int
    steps: int
    warm_up: int

    @property
    def last_step(self) -> int:
        """The number of a turn's last step."""
        return self.warm_up + self.steps


@dataclass(frozen=True)
class Turn:
    """Result of one training of a few steps.

    Attributes:
        step_s: seconds of each timed step, including the wait for data; the device's time on CUDA.
        samples: mean number of samples of a step.
        memory_mb: peak memory in megabytes (2**20 bytes).
        on_gpu: whether that is memory of the first GPU; else of the first process and its workers.
        device: description.
    """

    step_s: tuple[float, ...]
    samples: float
    memory_mb: float
    on_gpu: bool
    device: str


def run_turns(
    sides: Sequence[BenchmarkSide],
    length: Length,
    gpus: int | Literal["auto"],
    show: Callable[[str], None],
) -> list[list[Turn]]:
    """Train with each of the settings in alternating turns.

    Args:
        sides: the settings.
        length: numbers of turns and steps.
        gpus: of this machine; ``auto`` for all free ones.
        show: called with a line for every turn.

    Returns:
        The turns of each side.

    Raises:
        RunError: if a training fails, or the turns ran on different devices.
    """
    found: list[list[Turn]] = [[] for _ in sides]
    for number in range(length.turns * len(sides)):
        place = number % len(sides)
        title = f"turn {number + 1} of {length.turns * len(sides)}, {sides[place].name}"
        with tempfile.TemporaryDirectory(prefix="vrtspike-benchmark-") as folder:
            turn = _train(sides[place], Path(folder), length, gpus, show)
        show(f"{title}: {statistics.median(turn.step_s):.4g} s a step")
        found[place].append(turn)
        if turn.device != found[0][0].device:
            raise RunError(
                f"turns on different devices: the first ran on {found[0][0].device}, this one on "
                f"{turn.device}; set a number of GPUs that stay free: --config GPUS=1"
            )
    return found


def _train(
    side: BenchmarkSide,
    folder: Path,
    length: Length,
    gpus: int | Literal["auto"],
    show: Callable[[str], None],
) -> Turn:
    """Start a training, stop it after its steps, and read its records."""
    with _launcher(side, folder, gpus) as process:
        shown_lines = 0
        while not any(step["step"] == length.last_step for step in _timed_steps(folder)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
                raise _failure(side, folder, process.returncode)
            # It may wait for free GPUs.
            lines = _lines(folder / "terminal.txt")
            for line in lines[shown_lines:]:
                if line.startswith("waiting: "):
                    show(line)
            shown_lines = len(lines)
        turn = _read(folder, length)
        process.terminate()
        if process.wait() != EXIT_INTERRUPTED:
            raise _failure(side, folder, process.returncode)
    return turn


@contextlib.contextmanager
def _launcher(
    side: BenchmarkSide, folder: Path, gpus: int | Literal["auto"]
) -> Iterator[subprocess.Popen[bytes]]:
    """The launcher of a training; it is terminated when the block is left."""
    presets, config, log = folder / "presets", folder / "config.yaml", folder / "log.txt"
    presets.mkdir()
    settings = side.settings.model_dump(mode="json")
    (presets / f"{_PRESET}.yaml").write_text(json.dumps(settings), encoding="utf-8")
    workflow = {
        "PRESETS": [_PRESET],
        "PRESET_DIR": str(presets),
        "RUNS": str(folder / "runs"),
        "RESULTS": str(folder / "results"),
        "GPUS": gpus,
    }
    config.write_text(json.dumps(workflow), encoding="utf-8")
    command = [
        *(sys.executable, str(PROGRAM), "--preset", _PRESET, "--configfile", str(config)),
        *("--dataset", str(side.dataset), "--output", str(folder / "result"), "--log", str(log)),
    ]
    # In a session of its own, so that it gets Ctrl-C only from here.
    with (folder / "terminal.txt").open("ab") as terminal, log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=errors,
            start_new_session=True,
            preexec_fn=stop_with_parent,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()


def _timed_steps(folder: Path) -> list[dict[str, Any]]:
    """The records of the steps that a training has timed so far."""
    path = next((folder / "runs" / _PRESET).glob(f"*/{LOGS}/{TIMING_OF_STARTS}"), None)
    records = () if path is None else iter_records(path)
    return [record for record in records if record["kind"] == "step"]


def _read(folder: Path, length: Length) -> Turn:
    """The records of a training that has made its steps."""
    run = latest_run(folder / "runs" / _PRESET)
    assert run is not None
    timed = [step for step in _timed_steps(folder) if step["step"] > length.warm_up]
    timed = timed[: length.steps]
    record = read_record(run) or {}
    device = record["environment"]["device"]
    memory = [line for line in iter_records(run / LOGS / MEMORY) if line["kind"] == "memory"]
    on_gpu = memory[-1]["gpu"] is not None
    return Turn(
        step_s=tuple(each["ms"]["step"] / 1e3 for each in timed),
        samples=sum(each["samples"] for each in timed) / len(timed),
        memory_mb=max(
            float(
                line["gpu"]["peak_mb"] if on_gpu else line["process_peak_mb"] + line["children_mb"]
            )
            for line in memory
        ),
        on_gpu=on_gpu,
        device=f"{record['processes']} x {device['type']} ({device['name']})",
    )


def _failure(side: BenchmarkSide, folder: Path, status: int) -> RunError:
    """The error for a training that failed."""
    lines = [line for line in _lines(folder / "log.txt") if line.strip()][-_LAST_LINES:]
    text = "\n".join(f"  {line}" for line in lines)
    return RunError(
        f"training {side.name} ended with status {status} before it was timed; its last lines:\n"
        f"{text}"
    )


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()
