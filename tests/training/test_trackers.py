"""The trackers themselves, writing to files: no network is needed."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import read_json
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import RunError
from vrtspike.training.trackers import RUN_IDS, open_trackers


def run(**log: str | bool) -> RunIdentity:
    log = {"TENSORBOARD": False, **log}
    settings = DeblurringSettings.model_validate({"LOG": log, "TRAIN": {"BATCH_SIZE": 3}})
    return RunIdentity("small", settings, "dataset.json", "abc123", "d")


def fail(text: str) -> None:
    raise AssertionError(text)


def test_no_tracker_without_a_key(tmp_path):
    assert open_trackers(run(), tmp_path, fail) == []
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_drops_steps_that_are_computed_again(tmp_path):
    for first, last, value in ((1, 4, 1.0), (3, 5, 2.0)):
        (board,) = open_trackers(run(TENSORBOARD=True), tmp_path, fail)
        board.begin(first - 1)
        for step in range(first, last + 1):
            board.log(step, {"train/loss": value})
        board.close(finished=False)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("train/loss")
    assert [(event.step, event.value) for event in events] == [
        (1, 1), (2, 1), (3, 2), (4, 2), (5, 2),
    ]  # fmt: skip


@pytest.fixture
def store(tmp_path, monkeypatch) -> Path:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "mlruns"))
    return tmp_path / "mlruns"


@pytest.mark.slow
def test_mlflow_continues_its_run(tmp_path, store):
    from mlflow import MlflowClient

    for steps, finished in (((1, 2), False), ((3,), True)):
        (tracker,) = open_trackers(run(MLFLOW="deblurring", ON_END="key 7"), tmp_path, fail)
        for step in steps:
            tracker.log(step, {"train/loss": 1.0 / step, "validation/psnr": 30.0 + step})
        tracker.close(finished)
    client = MlflowClient()
    (experiment,) = [e for e in client.search_experiments() if e.name == "deblurring"]
    (result,) = client.search_runs([experiment.experiment_id])
    assert result.info.run_id == read_json(tmp_path / RUN_IDS)["mlflow"]
    assert (result.info.status, result.info.run_name) == ("FINISHED", "small abc123")
    assert result.data.params["TRAIN.BATCH_SIZE"] == "3"
    assert result.data.params["LOG.ON_END"] == "(not shown)"
    history = client.get_metric_history(result.info.run_id, "validation/psnr")
    # MLflow sorts by milliseconds: what comes within one has no order.
    assert sorted((metric.step, metric.value) for metric in history) == [(1, 31), (2, 32), (3, 33)]


def test_a_store_that_mlflow_refuses_is_reported_before_training(tmp_path, store, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "false")
    with pytest.raises(RunError, match=r"(?s)LOG\.MLFLOW: .*set MLFLOW_TRACKING_URI"):
        open_trackers(run(MLFLOW="deblurring"), tmp_path, fail)


@pytest.mark.slow
def test_metrics_that_cannot_be_sent_are_reported_and_stop_nothing(tmp_path, store):
    messages: list[str] = []
    (tracker,) = open_trackers(run(MLFLOW="deblurring"), tmp_path, messages.append)
    tracker.log(1, {"no such name!": 1.0})
    tracker.close(True)
    (text,) = messages
    assert text.startswith("warning: LOG.MLFLOW: values were not sent: ")


@pytest.mark.slow
def test_weights_and_biases_continues_its_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for step in (1, 2):
        (tracker,) = open_trackers(run(WANDB="deblurring", ON_END="key 7"), tmp_path, fail)
        tracker.log(step, {"train/loss": 0.125 + step})
        tracker.close(True)
        # Of two starts within a second the later one would write where the first one did.
        while list((tmp_path / "wandb").glob(f"offline-run-{datetime.now():%Y%m%d_%H%M%S}-*")):
            time.sleep(0.05)
    number = read_json(tmp_path / RUN_IDS)["wandb"]
    files = sorted((tmp_path / "wandb").glob(f"offline-run-*-{number}/run-{number}.wandb"))
    assert len(files) == 2
    text = b"".join(path.read_bytes() for path in files)
    for expected in (b"deblurring", b"small abc123", b"train/loss", b"BATCH_SIZE"):
        assert expected in text
    assert b"key 7" not in text
