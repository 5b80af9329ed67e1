from __future__ import annotations

import math
from collections.abc import Callable

import psutil
import pytest

from tests.analysis.benchmarked import MANIFEST, asked, files, planned, temporary
from tests.workflow.project import tiny_project
from vrtspike.analysis.benchmark import Benchmark, Length, apply_changes, run_benchmark
from vrtspike.config import load_preset
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import RunError

__all__ = ["planned", "temporary"]

CHANGED = "changed (TRAIN.BATCH_SIZE=2)"


def run(turns: int, show: Callable[[str], None] = print, gpus: int = 0) -> Benchmark:
    """Three steps after two, with batches of one and of two samples."""
    settings = Settings(), apply_changes(Settings(), ["TRAIN.BATCH_SIZE=2"])
    length = Length(turns, 3, 2)
    return run_benchmark("tiny", settings, (MANIFEST, MANIFEST), length, gpus, show)


def test_memory_is_the_peak_of_the_gpu_or_of_the_process_and_its_workers(planned):
    planned({"ms": [1.0] * 5, "mb": [100, 300, 200]}, {"ms": [1.0] * 5, "mb": [None, None]})
    found = run(1)
    (gpu,), (cpu,) = found.before, found.after
    assert (gpu.memory_mb, gpu.on_gpu) == (300, True)
    assert (cpu.memory_mb, cpu.on_gpu) == (1000, False)


def test_a_training_that_fails_says_which_and_why(planned, temporary):
    folder = planned({"ms": [1.0] * 5}, {"fails": "memory is full"})
    with pytest.raises(RunError) as caught:
        run(2)
    first, *lines = str(caught.value).splitlines()
    assert first == f"training {CHANGED} ended with status 2 before it was timed; its last lines:"
    assert lines == [*(f"  line {n}" for n in range(26, 40)), "  error: memory is full"]
    assert len(asked(folder)) == 2
    assert list(temporary.iterdir()) == []


def test_a_training_that_fails_while_it_stops_is_an_error(planned):
    planned({"ms": [1.0] * 5, "status": 1})
    with pytest.raises(RunError, match="training as it is ended with status 1"):
        run(2)


def test_turns_on_different_devices_do_not_compare(planned):
    folder = planned({"ms": [1.0] * 5}, {"ms": [1.0] * 5, "device": "slide rule"})
    match = r"first ran on 1 x cpu \(abacus\), this one on 1 x cpu \(slide rule\)"
    with pytest.raises(RunError, match=match):
        run(2)
    assert len(asked(folder)) == 2


def test_waiting_for_a_gpu_and_for_the_last_step(planned):
    told = []
    said = ["waiting: GPU 0 is held by them", "free now: GPU-a"]
    # There are as many lines as steps before the last one: one is no step.
    late = {"ms": [1.0, 1.0, 2.0, 3.0, 4.0], "last_after_s": 1, "said": said}
    planned(late, {"ms": [1.0] * 5})
    (turn,) = run(1, told.append, gpus=1).before
    assert turn.step_s == (0.002, 0.003, 0.004)
    assert told == [
        said[0],
        "turn 1 of 2, as it is: 0.003 s a step",
        f"turn 2 of 2, {CHANGED}: 0.001 s a step",
    ]


def test_no_training_outlives_a_benchmark(planned, temporary):
    # Too few steps: it waits for ever.
    planned({"ms": [1.0] * 4, "said": ["waiting: no end"]})
    running: list[psutil.Process] = []
    others = psutil.Process().children()  # of other tests in this process

    def interrupt(text: str) -> None:
        running.extend(child for child in psutil.Process().children() if child not in others)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(1, interrupt)
    assert len(running) == 1
    assert not running[0].is_running()
    assert list(temporary.iterdir()) == []


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.workflow
def test_the_real_training_is_timed(repository, tmp_path, temporary, monkeypatch):
    project = tiny_project(repository, tmp_path / "project")
    project.make(str(MANIFEST))
    monkeypatch.chdir(project.folder)
    # A preset of two steps, of which four are needed; twice the clips in a step.
    given = load_preset("config/presets/tiny.yaml")
    changed = apply_changes(given, ["TRAIN.GRADIENT_ACCUMULATION_STEPS=2"])
    length, before = Length(turns=1, steps=2, warm_up=2), files(project.folder)
    found = run_benchmark("tiny", (given, changed), (MANIFEST, MANIFEST), length, 0, print)
    for (turn,), samples in ((found.before, 1), (found.after, 2)):
        assert len(turn.step_s) == 2
        assert all(0 < seconds < math.inf for seconds in turn.step_s)
        assert turn.samples == samples
        assert turn.device.startswith("1 x cpu (")
        # PyTorch alone is more than this.
        assert 200 < turn.memory_mb < 4000
        assert not turn.on_gpu
    assert files(project.folder) == before
    # PyTorch keeps a folder of its own there.
    assert [path for path in temporary.iterdir() if "vrtspike" in path.name] == []
