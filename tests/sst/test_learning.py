"""Training reaches the best possible forecast, and finds nothing in unpredictable data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vrtspike.sst import Area, BaseTrainer, ERA5SSTMonthlyDataset, RecursiveAttentionTransformer
from vrtspike.sst.baselines import BASELINES
from vrtspike.sst.evaluate import ForecastEvaluation, best_possible_forecasts, evaluate
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.scores import BEST_POSSIBLE, MODEL

WORLD = Area("World", lon=[-180, 180], lat=[-60, 60])
SIZES = {
    **{"width": 45, "height": 15, "seq_len": 2, "d_model": 64, "num_heads": 4, "num_layers": 2},
    **{"dim_feedforward": 128, "dropout": 0.2, "recursion_depth": 1, "lead": 3},
}
"""As the demo's network."""


def trained(
    folder: Path, globe: Globe, epochs: int, patch: int = 5, rate: float = 1e-3
) -> ForecastEvaluation:
    """A trained model and the best possible forecast, on the test years."""
    write_example(folder, globe)
    data: dict[str, Any] = {"seq_len": 2, "lead": 3, "resolution": 8, "data": str(folder)}
    trainer = BaseTrainer(
        title="learning",
        area=WORLD,
        uid="one",
        model_class=RecursiveAttentionTransformer,
        dataset_class=ERA5SSTMonthlyDataset,
        save_path=folder / "model.pkl",
        dataset_params=data,
        trainer_params={"epochs": epochs, "batch_size": 16, "num_workers": 0, "warmup_steps": 20},
        model_params=SIZES | {"patch_size": patch, "learning_rate": rate},
    )
    test = ERA5SSTMonthlyDataset(**data, area=WORLD, split="test")
    best = best_possible_forecasts(globe, test)
    return evaluate(trainer.train(), test, best_possible=best)


@pytest.mark.endurance
@pytest.mark.slow
def test_the_demos_network_comes_close_to_the_best_possible_forecast(tmp_path):
    error = trained(tmp_path, Globe(), 24, rate=0.003).table["rmse_k"]
    optimum = error.sel(system=BEST_POSSIBLE)
    assert (error.sel(system=MODEL) < 1.13 * optimum).all()
    assert (error.sel(system=MODEL) < 0.97 * error.sel(system="persistence")).all()
    assert (error.sel(system=MODEL) < 0.7 * error.sel(system="climatology")).all()
    # Nothing is better than the best: whatever were, would know what it cannot.
    assert (error > 0.99 * optimum).all()
    assert (optimum < error.sel(system=list(BASELINES))).all()
    # Damped persistence is what theory says: better than persistence, not as good as it can be.
    assert error.sel(system="damped", lead=3) < error.sel(system="persistence", lead=3)


@pytest.mark.endurance
@pytest.mark.slow
def test_without_anomalies_nothing_beats_climatology(tmp_path):
    result = trained(tmp_path, Globe(anomalies=False), 8, patch=3)
    error = result.table["rmse_k"]
    # That the mean is the better guess than the last month is learned; more is not there.
    assert (error.sel(system=MODEL) < 0.8 * error.sel(system="persistence")).all()
    assert (error.sel(system=MODEL) > 0.99 * error.sel(system="climatology")).all()
    assert not result.verdicts["verdict"].str.startswith("better").any()
