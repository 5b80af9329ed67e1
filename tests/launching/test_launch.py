"""Launches of a run: finished, held by another launcher, of other code; and LOG.ON_END."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.helpers.concurrency import wait_until
from tests.runs.data_sets import STATISTICS, finish, write_dataset
from vrtspike.config import load_preset
from vrtspike.io.files import write_json
from vrtspike.launching.launch import has_advanced, launch, run_end_hook
from vrtspike.monitoring.display import Messages
from vrtspike.runs.folder import is_finished, lock_run
from vrtspike.runs.identity import RunIdentity, identify
from vrtspike.runs.published import read_published

PRESET = Path("config/presets/small.yaml")
STOPPED = """
from vrtspike.launching.signals import report_status
report_status(75)
"""


@pytest.fixture
def small(tmp_path, monkeypatch) -> dict[str, Any]:
    """Arguments of a launch on the CPU, in an empty folder with a configuration."""
    monkeypatch.chdir(tmp_path)
    dataset = write_dataset(tmp_path / "dataset.json", STATISTICS)
    PRESET.parent.mkdir(parents=True)
    PRESET.write_text("SEED: 5\n")
    Path("config.yaml").write_text("PRESETS: [small]\nRUNS: state\n")
    log = tmp_path / "logs/train.log"
    return {
        "preset": "small",
        "configfile": ["config.yaml"],
        "config": {},
        "dataset": dataset,
        "output": tmp_path / "out",
        "gpus": 0,
        "log": log,
    }


@pytest.fixture
def run(small) -> RunIdentity:
    return identify("small", load_preset(PRESET), small["dataset"])


@pytest.fixture
def folder(run) -> Path:
    """The folder in which the launcher looks for the run, with its identity."""
    folder = Path("state/small") / run.fingerprint
    run.write(folder)
    return folder


def launch_while_held(
    program: Path, arguments: dict[str, Any], folder: Path
) -> tuple[int, list[str]]:
    """Launch a run that another launcher holds until this one waits.

    Returns:
        the exit status, and the lines of the log while this launcher waits.
    """
    log = arguments["log"]
    held = Event()

    def hold() -> list[str]:
        with lock_run(folder, lock="launcher.lock"):
            held.set()
            wait_until(lambda: "waiting for" in log.read_text())
            return log.read_text().splitlines()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(hold)
        assert held.wait(60)
        status = launch(program, **arguments)
        return status, first.result()


def test_a_finished_run_is_found_by_its_preset_and_fingerprint(small, run, folder, tmp_path):
    finish(folder)
    # Another folder would hold no run, and there is no program to train one.
    assert launch(tmp_path / "none.py", **small) == 0
    assert small["log"].read_text().splitlines() == [
        f"run folder: {folder}",
        f"result: {tmp_path / 'out'} (the run was finished before)",
    ]
    assert read_published(tmp_path / "out").fingerprint == run.fingerprint


def test_the_log_of_a_run_that_is_finished_meanwhile_stays(small, folder, tmp_path):
    finish(folder)
    small["log"].parent.mkdir()
    small["log"].write_text("of the training\n")
    status, waiting = launch_while_held(tmp_path / "none.py", small, folder)
    assert status == 0
    assert waiting[0] == "of the training"
    assert waiting[1].startswith(f"{folder}: waiting for ")
    assert small["log"].read_text().splitlines() == [
        *waiting,
        f"run folder: {folder}",
        f"result: {tmp_path / 'out'} (the run was finished before)",
    ]


def test_the_log_of_a_training_that_continues_has_no_error_of_the_start_before(
    small, folder, tmp_path
):
    (tmp_path / "stopped.py").write_text(STOPPED)
    write_json(folder / "run.json", {"status": "failed", "step": 3, "starts": [{"step": 0}]})
    small["log"].parent.mkdir()
    small["log"].write_text("error: no space left\n")
    status, waiting = launch_while_held(tmp_path / "stopped.py", small, folder)
    assert status == 75
    assert waiting[0] == "error: no space left"
    assert small["log"].read_text() == f"run folder: {folder}\n"


def test_messages_about_changed_code_are_in_the_log(small, folder, tmp_path):
    finish(folder)
    write_json(folder / "code.json", {"schema": 0, "files": {}})
    assert launch(tmp_path / "none.py", **small) == 0
    messages = small["log"].read_text().splitlines()
    assert messages[:2] == [
        f"run folder: {folder}",
        "code has changed since this run began: code.json of another version; to train it again: "
        "snakemake --cores all train_small --config RETRAIN=small",
    ]
    # Set aside, the run would begin again, if there were a program.
    assert launch(tmp_path / "none.py", **small, retrain=True) == 1
    former = f"the former run is now {folder}.1: code.json of another version"
    assert small["log"].read_text().splitlines()[:2] == [f"run folder: {folder}", former]
    assert is_finished(Path(f"{folder}.1"))


@pytest.mark.parametrize(
    ("program", "status", "word"), [("stopped.py", 75, "interrupted"), ("none.py", 1, "failed")]
)
def test_on_end_runs_after_every_training(small, folder, tmp_path, program, status, word):
    PRESET.write_text("SEED: 5\nLOG:\n  ON_END: echo $VRTSPIKE_STATUS of $VRTSPIKE_PRESET\n")
    (tmp_path / "stopped.py").write_text(STOPPED)
    assert launch(tmp_path / program, **small) == status
    assert small["log"].read_text().splitlines()[-1] == f"{word} of small"


@pytest.mark.parametrize(
    ("step", "start_count", "again"), [(7, 1, True), (3, 1, False), (7, 2, False)]
)
def test_a_run_that_took_no_step_is_not_queued_again(tmp_path, step, start_count, again):
    """It would be for ever, also where a job stops before it begins."""
    starts = [{"step": 0}, {"step": 3}]
    (tmp_path / "run.json").write_text(
        json.dumps({"status": "interrupted", "step": step, "starts": starts})
    )
    assert has_advanced(tmp_path, start_count) == again


def test_on_end_gets_the_status_in_its_environment(tmp_path, capfd):
    write_json(tmp_path / "run.json", {"status": "whatever", "step": 7, "metrics": {"psnr": 30.5}})
    command = 'echo "$VRTSPIKE_PRESET $VRTSPIKE_STATUS $VRTSPIKE_STEP $VRTSPIKE_METRICS"'
    command += '; echo "$VRTSPIKE_RUN" >&2; echo "$VRTSPIKE_RESULT"'
    for status, word in ((0, "finished"), (75, "interrupted"), (1, "failed")):
        run_end_hook(command, status, "demo", tmp_path, Path("results/demo"), Messages())
        assert capfd.readouterr().out.splitlines() == [
            *(f'demo {word} 7 {{"psnr": 30.5}}', str(tmp_path)),
            str(Path("results/demo").absolute()),
        ]


def test_a_failure_of_on_end_is_a_warning(tmp_path, capfd):
    log = tmp_path / "train.log"
    log.write_text("trained\n")
    run_end_hook("echo one; exit 3", 0, "demo", tmp_path, tmp_path, Messages(log))
    warning = f"warning: LOG.ON_END ended with 3; its output: {log}\n"
    assert capfd.readouterr().out == warning
    assert log.read_text() == f"trained\none\n{warning}"
