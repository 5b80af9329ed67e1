"""What there is to learn is learned, and what there is not is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sst.conftest import PACIFIC
from vrtspike.sst import BaseTrainer, ERA5SSTMonthlyDataset, RecursiveAttentionTransformer
from vrtspike.sst.evaluate import CLIMATOLOGY, PERSISTENCE, Evaluation, evaluate
from vrtspike.sst.generate import Globe, write_example

BETTER = 0.2
"""By how much of their RMSE a model is better than persistence and climatology, at least."""


def trained(folder: Path, globe: Globe, epochs: int, model: dict[str, Any]) -> Evaluation:
    """Figures on the test years of a model trained on the others."""
    write_example(folder, globe)
    height, width = PACIFIC.shape(globe.step)
    data = {"seq_len": 4, "resolution": globe.step, "data": str(folder)}
    trainer = BaseTrainer(
        title="learning",
        area=PACIFIC,
        uid="one",
        model_class=RecursiveAttentionTransformer,
        dataset_class=ERA5SSTMonthlyDataset,
        save_path=folder / "model.pkl",
        dataset_params=data,
        trainer_params={
            **{"epochs": epochs, "batch_size": 32, "num_workers": 0, "gradient_clip_val": 1.0}
        },
        model_params={"width": width, "height": height, "seq_len": 4, "dropout": 0.0} | model,
    )
    test = ERA5SSTMonthlyDataset(**data, area=PACIFIC, split="test")
    return evaluate(trainer.train(), test)


SMALL = {
    **{"d_model": 32, "num_heads": 4, "num_layers": 2, "dim_feedforward": 64},
    **{"patch_size": 2, "learning_rate": 3e-3},
}


@pytest.mark.slow
def test_a_few_steps_beat_persistence_and_climatology(tmp_path):
    found = trained(tmp_path, Globe(step=8.0, south=-56.0), 4, SMALL)
    assert found.improvement(0, PERSISTENCE) > BETTER
    assert found.improvement(0, CLIMATOLOGY) > BETTER


@pytest.mark.slow
def test_without_anomalies_nothing_beats_climatology(tmp_path):
    found = trained(tmp_path, Globe(step=8.0, south=-56.0, anomalies=False), 4, SMALL)
    # That the mean is the better guess than the last month is learned, more than that is not there.
    assert found.improvement(0, PERSISTENCE) > BETTER
    assert found.improvement(0, CLIMATOLOGY) < 0.01


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.parametrize("anomalies", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_demo_on_a_finer_grid(tmp_path, anomalies, seed):
    model = SMALL | {"d_model": 64, "dim_feedforward": 128, "patch_size": 4}
    found = trained(tmp_path, Globe(step=4.0, seed=seed, anomalies=anomalies), 16, model)
    if anomalies:
        assert found.improvement(0, PERSISTENCE) > BETTER
        assert found.improvement(0, CLIMATOLOGY) > BETTER
    else:
        assert found.improvement(0, CLIMATOLOGY) < 0.01
