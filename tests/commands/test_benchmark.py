"""``vrtspike benchmark`` as a user types it, with trainings that take a moment."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from tests.workflow.project import CONFIG, TINY, tiny_project
from vrtspike.commands.main import run_command
from vrtspike.io.files import write_json
from vrtspike.io.records import read_records
from vrtspike.system.errors import RunError, UserError
from vrtspike.system.home import HOME_VARIABLE

MANIFEST = Path("results/data/tiny/k8/dataset.json")
PHASES = "[{CROP_SIZE: 32, EPOCHS: 1}, {CROP_SIZE: 64, EPOCHS: 1}]"
LENGTH = ["--turns", "3", "--steps", "3", "--warm-up", "1"]
TIMES = [[9e3, 400.0, 420.0, 410.0], [9e3, 100.0, 110.0, 90.0]] * 3
CHANGE = ["--against", "TRAIN.EMA=0.9", "DATALOADER.TRAIN_WORKERS=1"]
CHANGED = "changed (DATALOADER.TRAIN_WORKERS=1 TRAIN.EMA=0.9)"

Plan = Callable[..., Path]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def planned(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Make a project's folder in which turns are planned: ``ms`` of each step, ``mb`` on a GPU."""

    def make(*turns: dict[str, Any]) -> Path:
        folder = tmp_path / "planned"
        for name, text in {
            "config.yaml": CONFIG,
            "presets/tiny.yaml": TINY,
            "presets/other.yaml": "BASE: tiny\nDATA: {NUM_VOXEL_BINS: 4}\n",
            "presets/phases.yaml": f"BASE: tiny\nTRAIN: {{PROGRESSIVE: {PHASES}}}\n",
        }.items():
            path = folder / "config" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (folder / "scripts").mkdir()
        stand_in = Path(__file__).with_name("stand_in.py")
        shutil.copy(stand_in, folder / "scripts/launch_training.py")
        write_json(folder / MANIFEST, {})
        (folder / "plan.json").write_text(json.dumps([{"mb": [None], **turn} for turn in turns]))
        monkeypatch.chdir(folder)
        monkeypatch.setenv(HOME_VARIABLE, str(folder))
        return folder

    return make


def requests(folder: Path) -> list[dict[str, Any]]:
    """The arguments of each turn."""
    return read_records(folder / "asked.jsonl")


def files(folder: Path) -> set[str]:
    """All files below a folder; links are not followed."""
    paths = (Path(where, name) for where, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)) for path in paths if path.parent.name != "__pycache__"}


def test_the_printed_ratio_is_that_of_the_records(planned, temporary, capsys):
    memory = [[100, 300, 200], [None, None]] * 3
    folder = planned(*({"ms": ms, "mb": mb} for ms, mb in zip(TIMES, memory, strict=True)))
    before = files(folder)
    assert not run_command(["benchmark", "tiny", *CHANGE, *LENGTH])
    shown = capsys.readouterr()
    steps = [ms[1:] for ms in TIMES]
    ratio = math.prod(median(steps[n]) / median(steps[n + 1]) for n in (0, 2, 4)) ** (1 / 3)
    assert f"ratio of step times: {ratio:.3f} (95%: " in shown.out
    assert shown.out.endswith(f"changed is {ratio:.2f} x as fast\n")
    # Of a GPU the peak, else of the process with its workers.
    for row in (r"GPU memory\n", r"as it is .* 300 MB\n", r"changed .* 1000 MB\n"):
        assert re.search(row, shown.out)
    assert shown.out.splitlines()[1:4] == [
        '  DATALOADER.TRAIN_WORKERS: "auto" -> 1',
        "  TRAIN.EMA: 0.0 -> 0.9",
        "3 turns of each, 3 steps of a turn timed after 1",
    ]
    assert shown.err.splitlines()[1] == f"turn 2 of 6, {CHANGED}: 0.1 s a step"
    for request, average in zip(requests(folder), [0.0, 0.9] * 3, strict=True):
        workflow = request["workflow"]
        assert request["settings"]["TRAIN"]["EMA"] == average
        assert (request["dataset"], workflow["GPUS"]) == (str(MANIFEST), 0)
        for place in (workflow["RUNS"], workflow["RESULTS"], request["output"], request["log"]):
            assert place.startswith(f"{temporary}/")
    assert files(folder) - before == {"asked.jsonl"}
    assert list(temporary.iterdir()) == []


def test_the_configuration_counts_and_first_steps_are_called_so(planned, capsys):
    folder = planned(*({"ms": ms} for ms in TIMES))
    options = ["--config", "GPUS=3", "SET=TRAIN.BATCH_SIZE=2"]
    run_command(["benchmark", "phases", *CHANGE, *LENGTH, *options])
    for request in requests(folder):
        assert request["workflow"]["GPUS"] == 3
        assert request["settings"]["TRAIN"]["BATCH_SIZE"] == 2
    phases = [{"CROP_SIZE": 32, "EPOCHS": 1000000}]
    note = f"timed are the first steps, with TRAIN.PROGRESSIVE={phases}"
    assert f"\n{note}\n" in capsys.readouterr().out


PREPARE = "prepare them: snakemake --cores 2 results/data/tiny/k4/dataset.json"


@pytest.mark.parametrize(
    ("preset", "change", "match"),
    [
        ("tiny", "DATALOADER.NUM_WORKERS=0", "did you mean DATALOADER.TRAIN_WORKERS"),
        ("tiny", "TRAIN.BATCH_SIZE=1", "has these values already"),
        ("tiny", "LOG.TIMING_FILE=false", "LOG.TIMING_FILE: there is nothing to compare"),
        ("tony", "TRAIN.BATCH_SIZE=2", "no preset 'tony'; there are"),
        ("other", "TRAIN.BATCH_SIZE=2", f"the data of preset other are not prepared; {PREPARE}"),
        # The change asks for other data, whose name is only known with it.
        (
            "tiny",
            "DATA.CONTEXT_STEPS=4",
            r"snakemake --cores 2 results/data/tiny-context4/k8/dataset\.json "
            r"--config 'SET=\[\"DATA\.CONTEXT_STEPS=4\"\]'$",
        ),
    ],
)
def test_incomparable_settings_are_refused_before_training(planned, preset, change, match):
    folder = planned()
    with pytest.raises(UserError, match=match):
        run_command(["benchmark", preset, "--against", change])
    assert not (folder / "asked.jsonl").exists()


def test_too_few_turns_are_refused(capsys):
    with pytest.raises(SystemExit):
        run_command(["benchmark", "tiny", *CHANGE, "--turns", "2"])
    assert "--turns: found 2, expected 3 or more" in capsys.readouterr().err


FAILURE = [
    f"training {CHANGED} ended with status 2 before it was timed; its last lines:",
    *(f"  line {n}" for n in range(26, 40)),
    "  error: memory is full",
]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"fails": "memory is full"}, "\n".join(FAILURE)),
        (
            {"ms": TIMES[0], "device": "slide rule"},
            "turns on different devices: the first ran on 1 x cpu (abacus), this one on 1 x cpu "
            "(slide rule); set a number of GPUs that stay free: --config GPUS=1",
        ),
    ],
)
def test_a_turn_that_fails_or_does_not_compare_ends_it(planned, temporary, second, message):
    folder = planned({"ms": TIMES[0]}, second)
    with pytest.raises(RunError) as caught:
        run_command(["benchmark", "tiny", *CHANGE, *LENGTH])
    assert str(caught.value) == message
    assert len(requests(folder)) == 2
    assert list(temporary.iterdir()) == []


def test_waiting_for_a_gpu_and_for_the_last_step(planned, capsys):
    messages = ["waiting: GPU 0 is held by them", "free now: GPU-a"]
    # There are as many lines as steps before the last one: one is no step.
    late = {"ms": [1.0, 2.0, 2.0, 4.0], "last_after_s": 1, "said": messages}
    planned(late, *[{"ms": TIMES[0]}] * 5)
    run_command(["benchmark", "tiny", *CHANGE, *LENGTH])
    assert capsys.readouterr().err.splitlines()[:2] == [
        messages[0], "turn 1 of 6, as it is: 0.002 s a step",
    ]  # fmt: skip


def test_no_training_outlives_a_benchmark(planned, temporary, monkeypatch):
    # Too few steps: it waits for ever.
    planned({"ms": [1.0], "said": ["waiting: no end"]})
    running: list[psutil.Process] = []
    others = psutil.Process().children()  # of other tests in this process

    def interrupt(*text: object, **options: object) -> None:
        running.extend(child for child in psutil.Process().children() if child not in others)
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.print", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_command(["benchmark", "tiny", *CHANGE, *LENGTH])
    assert len(running) == 1
    assert not running[0].is_running()
    assert list(temporary.iterdir()) == []


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.workflow
def test_the_printed_command_prepares_the_data_of_the_change(
    repository, tmp_path, temporary, monkeypatch
):
    project = tiny_project(repository, tmp_path / "project")
    project.make(str(MANIFEST))
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv(HOME_VARIABLE, str(project.folder))
    change = ["benchmark", "tiny", "--against", "DATA.CONTEXT_STEPS=4"]
    short = ["--turns", "3", "--steps", "1", "--warm-up", "1"]
    with pytest.raises(UserError) as refused:
        run_command([*change, *short])
    snakemake, *arguments = shlex.split(str(refused.value).partition("prepare them: ")[2])
    assert snakemake == "snakemake"
    project.make(*arguments)
    run_command([*change, *short])


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.workflow
def test_the_real_training_is_timed(repository, tmp_path, temporary, monkeypatch, capsys):
    project = tiny_project(repository, tmp_path / "project")
    project.make(str(MANIFEST))
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv(HOME_VARIABLE, str(project.folder))
    before = files(project.folder)
    # A preset of two steps, of which four are needed; twice the clips in a step.
    twice = ["--against", "TRAIN.GRADIENT_ACCUMULATION_STEPS=2"]
    run_command(["benchmark", "tiny", *twice, "--turns", "3", "--steps", "2", "--warm-up", "2"])
    shown = capsys.readouterr().out
    assert shown.startswith("tiny on 1 x cpu (")
    assert "samples of a step: 1 as it is, 2 changed" in shown
    # PyTorch alone takes more than 200 MB.
    peaks = [int(peak) for peak in re.findall(r"(\d+) MB$", shown, re.MULTILINE)]
    assert len(peaks) == 2
    assert all(200 < peak < 4000 for peak in peaks)
    assert files(project.folder) == before
    # PyTorch keeps a folder of its own there.
    assert [path for path in temporary.iterdir() if "vrtspike" in path.name] == []
