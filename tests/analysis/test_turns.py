from __future__ import annotations

import math

import psutil
import pytest

from tests.analysis.benchmarked import MANIFEST, asked, files, planned, temporary
from tests.workflow.project import tiny_project
from vrtspike.analysis.benchmark import (
    BenchmarkSide,
    Length,
    apply_changes,
    run_turns,
    timing_settings,
)
from vrtspike.config import load_preset
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import RunError

__all__ = ["planned", "temporary"]

ONE, TWO = ({"TRAIN": {"BATCH_SIZE": size}} for size in (1, 2))


@pytest.fixture
def sides() -> list[BenchmarkSide]:
    """Settings with batches of one and of two samples."""
    return [
        BenchmarkSide(name, timing_settings(Settings.model_validate(values), 5), MANIFEST)
        for name, values in (("one", ONE), ("two", TWO))
    ]


def test_memory_is_the_peak_of_the_gpu_or_of_the_process_and_its_workers(planned, sides):
    planned({"ms": [1.0] * 5, "mb": [100, 300, 200]}, {"ms": [1.0] * 5, "mb": [None, None]})
    (gpu,), (cpu,) = run_turns(sides, Length(1, 3, 2), 0, print)
    assert (gpu.memory_mb, gpu.on_gpu) == (300, True)
    assert (cpu.memory_mb, cpu.on_gpu) == (1000, False)


def test_a_training_that_fails_says_which_and_why(planned, sides, temporary):
    folder = planned({"ms": [1.0] * 5}, {"fails": "memory is full"})
    with pytest.raises(RunError) as caught:
        run_turns(sides, Length(2, 3, 2), 0, print)
    first, *lines = str(caught.value).splitlines()
    assert first == "training two ended with status 2 before it was timed; its last lines:"
    assert lines == [*(f"  line {n}" for n in range(26, 40)), "  error: memory is full"]
    assert len(asked(folder)) == 2
    assert list(temporary.iterdir()) == []


def test_a_training_that_fails_while_it_stops_is_an_error(planned, sides):
    planned({"ms": [1.0] * 5, "status": 1})
    with pytest.raises(RunError, match="training one ended with status 1"):
        run_turns(sides, Length(2, 3, 2), 0, print)


def test_turns_on_different_devices_do_not_compare(planned, sides):
    folder = planned({"ms": [1.0] * 5}, {"ms": [1.0] * 5, "device": "slide rule"})
    match = r"first ran on 1 x cpu \(abacus\), this one on 1 x cpu \(slide rule\)"
    with pytest.raises(RunError, match=match):
        run_turns(sides, Length(2, 3, 2), 0, print)
    assert len(asked(folder)) == 2


def test_waiting_for_a_gpu_and_for_the_last_step(planned, sides):
    told = []
    said = ["waiting: GPU 0 is held by them", "free now: GPU-a"]
    # There are as many lines as steps before the last one: one is no step.
    planned({"ms": [1.0, 1.0, 2.0, 3.0, 4.0], "last_after_s": 1, "said": said})
    ((turn,),) = run_turns(sides[:1], Length(1, 3, 2), 1, told.append)
    assert turn.step_s == (0.002, 0.003, 0.004)
    assert told == [said[0], "turn 1 of 1, one: 0.003 s a step"]


def test_no_training_outlives_a_benchmark(planned, sides, temporary):
    # Too few steps: it waits for ever.
    planned({"ms": [1.0] * 4, "said": ["waiting: no end"]})
    running: list[psutil.Process] = []
    others = psutil.Process().children()  # of other tests in this process

    def interrupt(text: str) -> None:
        running.extend(child for child in psutil.Process().children() if child not in others)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_turns(sides, Length(1, 3, 2), 0, interrupt)
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
    changed = apply_changes(given, ["TRAIN.GRADIENT_ACCUMULATION_STEPS=2", "TRAIN.MAX_STEPS=3"])
    length, before = Length(turns=1, steps=2, warm_up=2), files(project.folder)
    side = BenchmarkSide("changed", timing_settings(changed, length.last_step), MANIFEST)
    ((turn,),) = run_turns([side], length, 0, print)
    assert len(turn.step_s) == 2
    assert all(0 < seconds < math.inf for seconds in turn.step_s)
    assert turn.samples == 2
    assert turn.device.startswith("1 x cpu (")
    # PyTorch alone is more than this.
    assert 200 < turn.memory_mb < 4000
    assert not turn.on_gpu
    assert files(project.folder) == before
    # PyTorch keeps a folder of its own there.
    assert [path for path in temporary.iterdir() if "vrtspike" in path.name] == []
