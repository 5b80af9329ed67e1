"""Micro-steps as CUDA graphs on a real device."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.deblurring.test_stalls import batch, settings, task
from tests.training import setup_run
from tests.training.forecast import Forecaster, ForecastTask
from tests.training.setup_run import forecast_settings, records
from tests.training.test_loop import final_state
from vrtspike.config.run_schema import TrainSettings
from vrtspike.deblurring.models.stochastic_depth import StochasticDepth
from vrtspike.deblurring.preset import build_network
from vrtspike.errors import RunError
from vrtspike.monitoring.timing import TimingLogger
from vrtspike.training.batches import seed_everything
from vrtspike.training.cuda_graphs import CudaGraphs, GraphedMicroSteps
from vrtspike.training.distributed import Ranks
from vrtspike.training.loop import Trainer
from vrtspike.training.micro_steps import Work
from vrtspike.training.optimizers import build_optimizer
from vrtspike.training.precision import Precision

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
RANKS = Ranks(0, 0, 1, 1, torch.device("cuda", 0))


class Capturable(Forecaster):
    """Numbers drawn on the device and on the host; nothing is computed again."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = StochasticDepth([0.5])

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        x = self.inlet(past)
        factors = self.depth(x)
        branch = self.body(x)
        if factors is not None:
            branch = branch * factors[0, 0].view(-1, 1, 1, 1)
        return self.outlet(x + branch)


class Varied(ForecastTask):
    def variant(self, step: int) -> int:
        return 0


class Reading(Varied):
    """Reads a value on the host, which no graph can hold."""

    def losses(self, output, batch, step):
        assert output.mean().item() < 1e6
        return super().losses(output, batch, step)


def train(folder: Path, graph: str, task: ForecastTask, **options: Any) -> Trainer:
    known = forecast_settings({**options.pop("keys", {}), "CUDA_GRAPH": graph})
    options = {"ranks": RANKS, "model": Capturable, "timing": True, "drop_last": False, **options}
    return setup_run.train(folder, known, task=task, **options)


VARIANTS = {
    "scaled": {"keys": {"PRECISION": "16-mixed", "EMA": 0.9}},
    "thawed": {"frozen_steps": {"inlet": 6}},
    # The last epoch's first batches are enough for a warm-up and a check.
    "sizes": {"samples": 17},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_gives_the_same_up_to_rounding(tmp_path, name, recwarn):
    train(tmp_path / "run", "off", Varied(), **VARIANTS[name])
    trainer = train(tmp_path / "graph", "on", Varied(), **VARIANTS[name])
    assert trainer.micro_steps._checked
    assert not [w for w in recwarn.list if "CUDA graph" in str(w.message)]
    one, other = (final_state(tmp_path / kind)["model"] for kind in ("run", "graph"))
    for key, value in one.items():
        torch.testing.assert_close(other[key], value, rtol=2e-2, atol=2e-3)
    steps = [[r["step"] for r in records(tmp_path / kind)] for kind in ("run", "graph")]
    assert steps[0] == steps[1]
    sections = trainer.timing.summary()["sections"]
    assert {"step/forward", "step/loss/mse", "step/backward"} <= sections.keys()
    children = {"data", "forward", "loss", "backward", "optimizer"}
    total = sum(sections[f"step/{name}"]["mean"] for name in children)
    assert total <= 1.01 * sections["step"]["mean"]


def test_what_cannot_be_captured_is_launched_and_said(tmp_path):
    with pytest.warns(UserWarning, match="cannot be used"):
        train(tmp_path / "auto", "auto", Reading())
    train(tmp_path / "off", "off", Reading())
    one, other = (final_state(tmp_path / kind)["model"] for kind in ("auto", "off"))
    for key, value in one.items():
        torch.testing.assert_close(other[key], value, rtol=2e-2, atol=2e-3)
    with pytest.raises(RunError, match="Set it to auto or off"):
        train(tmp_path / "on", "on", Reading())


def test_the_real_model_is_captured_and_its_replays_wait_for_nothing(tmp_path):
    known = settings()
    model = build_network(known).to(RANKS.device).train()
    with RANKS.device:
        problem = task()
    train = TrainSettings(PRECISION="bf16-mixed")
    timing = TimingLogger(tmp_path, RANKS.device, console=False)
    steps = GraphedMicroSteps(
        model,
        Work(problem, Precision(train, RANKS.device), 1),
        RANKS,
        build_optimizer([{"params": list(model.parameters())}], train.OPTIM),
        seed_everything,
        CudaGraphs(RANKS.device, timing),
        problem.variant,
        insist=True,
    )
    raw = {name: value.pin_memory() for name, value in batch().items()}
    for number in range(8):
        steps.begin()
        # Three warm up, the fourth is checked.
        torch.cuda.set_sync_debug_mode("error" if number > 3 else "default")
        try:
            terms = steps(problem.prepare(raw, RANKS.device), number, number, True)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert all(torch.isfinite(term) for term in terms.values())
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    assert not any(b.is_cpu for b in chain(model.buffers(), terms.values()))
    timing.close()
