"""Micro-steps as CUDA graphs on a real device."""

from __future__ import annotations

import warnings
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.deblurring.test_stalls import batch, settings, task
from tests.training.forecast import FlowForecaster, ForecastTask
from tests.training.setup_run import forecast_settings, forecast_trainer, records
from tests.training.test_loop import final_state
from vrtspike.config.train_schema import TrainSettings
from vrtspike.deblurring.models.layers import DropPath, draw_branches
from vrtspike.deblurring.preset import build_network
from vrtspike.errors import RunError
from vrtspike.launching.signals import StopRequest
from vrtspike.monitoring.timing import TimingLogger
from vrtspike.training.cuda_graphs import CudaRecorder
from vrtspike.training.distributed import Ranks
from vrtspike.training.loop import Trainer
from vrtspike.training.micro_steps import RecordedMicroSteps, micro_steps
from vrtspike.training.optimizers import build_optimizer
from vrtspike.training.precision import Precision
from vrtspike.training.seeding import seed_everything

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
RANKS = Ranks(0, 0, 1, 1, torch.device("cuda", 0))


class Capturable(FlowForecaster):
    """Numbers drawn on the device and on the host; nothing is computed again."""

    def __init__(self) -> None:
        super().__init__()
        self.drop_path = DropPath(0.5)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        x = self.inlet(past)
        ((branch, _),) = draw_branches([self.drop_path], x)
        return self.outlet(x + branch.scaled(self.body(x)))


class Varied(ForecastTask):
    def variant(self, step: int) -> int:
        return 0


class Reading(Varied):
    """Reads a value on the host, which no graph can hold."""

    def losses(self, output, batch, step):
        assert output.mean().item() < 1e6
        return super().losses(output, batch, step)


def train(folder: Path, graph: str, task: ForecastTask, **options: Any) -> Trainer:
    samples = options.pop("samples", 10)
    known = forecast_settings({**options, "CUDA_GRAPH": graph})
    trainer = forecast_trainer(
        folder,
        known,
        ranks=RANKS,
        model=Capturable,
        task=task,
        timing=True,
        samples=samples,
        drop_last=False,
    )
    with StopRequest() as stop:
        assert trainer.run(stop) == "finished"
    trainer.log.close()
    trainer.timing.close()
    return trainer


VARIANTS = {
    "plain": {"PRECISION": "32"},
    "scaled": {"PRECISION": "16-mixed", "EMA": 0.9},
    "half": {"PRECISION": "bf16-mixed"},
    "thawed": {"PRECISION": "32", "FREEZE_FLOW_STEPS": 6},
    "sizes": {"PRECISION": "32", "samples": 11},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_gives_the_same_up_to_rounding(tmp_path, name, recwarn):
    train(tmp_path / "run", "off", Varied(), **VARIANTS[name])
    trainer = train(tmp_path / "graph", "on", Varied(), **VARIANTS[name])
    assert trainer.micro_steps._graphs._trusted
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


class Pinned(Varied):
    """Sends a batch as the data loader of a run does."""

    def prepare(self, batch, device):
        sent = {name: value.pin_memory() for name, value in batch.items()}
        return {name: value.to(device, non_blocking=True) for name, value in sent.items()}


@pytest.mark.parametrize("graph", ["on", "off"])
@pytest.mark.parametrize("precision", ["16-mixed", "bf16-mixed"])
def test_a_step_waits_once(tmp_path, graph, precision):
    known = forecast_settings({"PRECISION": precision, "CUDA_GRAPH": graph, "EMA": 0.9})
    trainer = forecast_trainer(
        tmp_path, known, ranks=RANKS, model=Capturable, task=Pinned(), timing=True
    )
    stream = trainer._stream()
    with StopRequest() as stop, trainer.timing.activate():
        for _ in range(6):
            trainer._step(stream, stop)
            trainer.timing.step()
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                trainer._step(stream, stop)
                trainer.timing.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    trainer.timing.close()
    trainer.log.close()
    assert len([w for w in caught if "synchronizing" in str(w.message)]) == 1


@pytest.mark.parametrize("precision", ["32", "bf16-mixed"])
def test_the_real_model_is_captured_and_its_replays_wait_for_nothing(tmp_path, precision):
    known = settings(precision)
    model = build_network(known).to(RANKS.device).train()
    with RANKS.device:
        problem = task()
    train = TrainSettings(PRECISION=precision, CUDA_GRAPH="on")
    timing = TimingLogger(tmp_path, RANKS.device, console=False)
    steps = micro_steps(
        model,
        problem,
        train,
        Precision(train, RANKS.device),
        RANKS,
        build_optimizer([{"params": list(model.parameters())}], train.OPTIM),
        seed_everything,
        lambda: CudaRecorder(model, RANKS.device, timing),
        1,
    )
    assert isinstance(steps, RecordedMicroSteps)
    raw = {name: value.pin_memory() for name, value in batch().items()}
    for number in range(8):
        steps.begin()
        # Three are run, the fourth is tried.
        torch.cuda.set_sync_debug_mode("error" if number > 3 else "default")
        try:
            terms = steps(problem.prepare(raw, RANKS.device), number, number, True)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert all(torch.isfinite(term) for term in terms.values())
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    assert not any(b.is_cpu for b in chain(model.buffers(), terms.values()))
    timing.close()
