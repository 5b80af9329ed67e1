"""Do training's other parts work on a GPU? Parts of ``gpu.py``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from gpu_agreement import close
from gpu_parts import Figures, Place
from gpu_steps import Step

REPOSITORY = Path(__file__).resolve().parent.parent
MIB = 2**20
LIMIT_ATOMICS = 1e-2
"""Of a loss after an optimiser step on a GPU: sums by atomic additions come in any order, and first
steps of AdamW are as large for small gradients as for large ones."""


def train(step: Step, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    """Losses of optimiser steps."""
    losses = []
    for _ in range(steps):
        losses.append(step().item())
        optimizer.step()
    return losses


def resume(place: Place) -> Figures:
    """Two steps, a checkpoint, two more; and the last two again from the checkpoint alone."""

    def start() -> tuple[Step, torch.optim.Optimizer]:
        step = Step(place, "baseline")
        return step, torch.optim.AdamW(step.model.parameters(), 1e-4, fused=not place.small or None)

    step, optimizer = start()
    before = train(step, optimizer, 2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.pt"
        # Stochastic depth draws by the generator of the CPU.
        random = torch.get_rng_state()
        torch.save([step.model.state_dict(), optimizer.state_dict(), random], file)
        whole = train(step, optimizer, 2)
        step, optimizer = start()
        weights, moments, random = torch.load(file, weights_only=True)
    step.model.load_state_dict(weights)
    optimizer.load_state_dict(moments)
    torch.set_rng_state(random)
    resumed = train(step, optimizer, 2)
    first, second = (abs(a - b) / a for a, b in zip(whole, resumed, strict=True))
    yield "first loss", close(first, 0.0)
    yield "second loss", close(second, 0.0 if place.small else LIMIT_ATOMICS)
    yield "losses", before + whole


def memory_categories(place: Place) -> Figures:
    """Parameters, gradients and moments by arithmetic; activations are the rest of the peak."""
    from vrtspike.monitoring.memory import gpu_categories, measure_memory

    step = Step(place, "demo")
    optimizer = torch.optim.AdamW(step.model.parameters())
    train(step, optimizer, 1)
    found = gpu_categories(step.model, optimizer, place.device)
    trained = sum(p.grad.nbytes for p in step.model.parameters() if p.grad is not None) / MIB
    differences = (found["gradients_mb"] - trained, found["optimizer_mb"] - 2 * trained)
    agrees = max(map(abs, differences)) < 0.1 and found["parameters_mb"] >= trained - 0.1
    agrees = agrees and (place.small or found["activations_mb"] > 0)
    yield "categories", {"agrees": agrees, **found}
    yield "now", measure_memory(place.device)


def eight_bit_optimiser(place: Place) -> Figures:
    """Moments in 8 bits: the loss falls, and the moments take less than half of AdamW's."""
    from vrtspike.training.optimizers import build_optimizer

    step = Step(place, "demo")
    parameters: list[nn.Parameter] = list(step.model.parameters())
    settings: Any = SimpleNamespace(
        TYPE="adamw8bit", BETAS=(0.9, 0.99), WEIGHT_DECAY=0.0, PAGED=False
    )
    optimizer = build_optimizer([{"params": parameters, "lr": 1e-3}], settings)
    losses = train(step, optimizer, 5)
    states = [value for state in optimizer.state.values() for value in state.values()]
    moments = sum(t.nbytes for t in states if isinstance(t, torch.Tensor))
    share = moments / sum(2 * p.nbytes for p in parameters)
    agrees = losses[-1] < losses[0] and share < 0.5
    yield "steps", {"agrees": agrees, "losses": losses, "moments, of AdamW's bytes": share}


def marked_tests(place: Place) -> Figures:
    """The tests with the marker ``gpu``."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    command += ["--continue-on-collection-errors", "tests"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    printed = done.stdout.splitlines()
    last = printed[-1] if printed else done.stderr[-1000:]
    yield "pytest", {"agrees": done.returncode == 0, "reason": last, "printed": printed[-60:]}
