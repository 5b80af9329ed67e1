"""A trainer is built in memory from the newest checkpoint; running it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.forecast import Disturbed
from tests.training.setup_run import (
    ACCUMULATION,
    first_micro_batch,
    forecast_settings,
    forecast_trainer,
    records,
    run,
    train,
)
from vrtspike.io.files import file_digest
from vrtspike.system.errors import RunError

SETTINGS = forecast_settings()


@pytest.fixture
def failed(tmp_path) -> Path:
    """A run that failed in its seventh step, after a checkpoint of the fourth."""
    disturbed = Disturbed(first_micro_batch(7), ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, SETTINGS, objective=disturbed)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    """The digests of all files by path."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): file_digest(path) for path in files}


def test_building_a_trainer_writes_nothing(failed):
    before = contents(failed)
    trainer = forecast_trainer(failed, SETTINGS)
    assert trainer.counters.step == 4
    assert contents(failed) == before
    assert records(failed)[-1]["step"] == 6
    assert run(trainer).outcome == "finished"
    steps = [record["step"] for record in records(failed) if record["kind"] == "train"]
    assert steps == list(range(1, 13))


def test_a_trainer_continues_from_the_newest_checkpoint(failed):
    trainer = forecast_trainer(failed, SETTINGS)
    assert (trainer.counters.step, trainer.micro_batches_per_step) == (4, ACCUMULATION)
    trainer.log.close()
    # The number of micro-batches is that of the run, even if the settings have another one.
    other = forecast_settings({"GRADIENT_ACCUMULATION_STEPS": 3})
    trainer = forecast_trainer(failed, other)
    assert trainer.micro_batches_per_step == ACCUMULATION
    trainer.log.close()
    with pytest.raises(RunError, match="checkpoints belong to run test, this is run another"):
        forecast_trainer(failed, SETTINGS, fingerprint="another")


def test_without_a_checkpoint_it_begins(tmp_path):
    trainer = forecast_trainer(tmp_path, forecast_settings({"GRADIENT_ACCUMULATION_STEPS": 3}))
    assert (trainer.counters.step, trainer.micro_batches_per_step) == (0, 3)
    trainer.log.close()
