"""Model and optimiser of a run, and one optimiser step of it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from vrtspike.config.run_schema import RunSettings
from vrtspike.launching.signals import StopRequest
from vrtspike.monitoring.timing import section
from vrtspike.system.seeds import seed_everything
from vrtspike.training.distributed import DistributedContext, Replica, reduce_step_statistics
from vrtspike.training.objectives import Batch, TrainingParts
from vrtspike.training.optimizers import (
    build_optimizer,
    frozen_parameters,
    parameter_groups,
    scaled_learning_rate,
    set_frozen,
    set_learning_rates,
    trainable_groups,
)
from vrtspike.training.precision import Precision
from vrtspike.training.progress import StepResult

if TYPE_CHECKING:
    from torch.distributed.checkpoint.stateful import Stateful


class Learner:
    """Model, optimiser and moving average of a run, and their optimiser steps.

    Args:
        parts: model and objective.
        settings: the section TRAIN and SEED are read.
        ranks: the processes of the run.
        micro_batches: number of micro-batches of an optimiser step, of all processes.
        total_steps: optimiser steps of the run.

    Attributes:
        model: the model in the precision of its weights.
        precision: arithmetic of the run.
        optimizer: the optimiser.
    """

    def __init__(
        self,
        parts: TrainingParts,
        settings: RunSettings,
        ranks: DistributedContext,
        micro_batches: int,
        total_steps: int,
    ) -> None:
        self._objective = parts.objective
        self._seed = settings.SEED
        self._train_settings = settings.TRAIN
        self._ranks = ranks
        self._micro_batches = micro_batches
        self._micro_steps = micro_batches // ranks.world_size
        self._total_steps = total_steps
        self._learning_rate = scaled_learning_rate(self._train_settings, micro_batches)
        self.precision = Precision(self._train_settings, ranks.device)
        self.model = parts.model
        # Weights that are not trained are not rounded either (bf16-true).
        if settings.unchanged_weights is None:
            self.precision.prepare(self.model)
        groups = trainable_groups(self.model)
        self._frozen = frozen_parameters(groups, parts.frozen_steps)
        self.optimizer = build_optimizer(
            parameter_groups(groups, self._learning_rate, parts.lr_factors),
            self._train_settings.OPTIM,
        )
        self._average: AveragedModel | None = None
        if self._train_settings.EMA > 0:
            update = get_ema_multi_avg_fn(self._train_settings.EMA)
            self._average = AveragedModel(self.model, multi_avg_fn=update)
        # After the average, which is a copy that is not compiled.
        if self._train_settings.COMPILE_MODEL:
            self.model.compile(mode=self._train_settings.COMPILE_MODE)
        forward_module = self.precision.forward_module(
            self.model, half_precision_weights=parts.half_precision_weights
        )
        self._replica = Replica(forward_module, ranks)

    def trained_model(self) -> nn.Module:
        """Return the model to validate and publish: the moving average (TRAIN.EMA), if any."""
        if self._average is None:
            return self.model
        return self._average.module

    def stateful_objects(self) -> dict[str, Stateful]:
        """Return the objects whose states a checkpoint holds, by their keys in it."""
        objects: dict[str, Stateful] = {
            "model": self.model,
            "precision": self.precision.scaler,
            "optimizer": self.optimizer,
        }
        if self._average is not None:
            objects["average"] = self._average
        return objects

    def step(self, stream: Iterator[Any], step: int, stop: StopRequest) -> tuple[StepResult, bool]:
        """Take the optimiser step after ``step`` finished ones.

        Args:
            stream: batches of this process from the data loader.
            step: finished optimiser steps.
            stop: request to stop of this process.

        Returns:
            result of the step, and true if any process was requested to stop.
        """
        rate = self._begin_step(step)
        losses: dict[str, torch.Tensor] = {}
        samples = 0
        frames = 0
        data_ms = 0.0
        for micro in range(self._micro_steps):
            started = time.perf_counter()
            with section("data"):
                batch = self._objective.prepare(next(stream), self._ranks.device)
            data_ms += 1e3 * (time.perf_counter() - started)
            for name, term in self._micro_step(batch, step, micro).items():
                losses[name] = losses.get(name, 0) + term
            batch_samples, batch_frames = self._objective.batch_counts(batch)
            samples += batch_samples
            frames += batch_frames
        with section("optimizer"):
            norm = self._clip_gradients()
            counts = (samples, frames, int(stop.received is not None))
            means, norm_value, totals = reduce_step_statistics(self._ranks, losses, norm, counts)
            samples, frames, stops = totals
            finite = math.isfinite(norm_value)
            self._update_weights(finite)
        result = StepResult(means, rate, norm_value, not finite, samples, frames, data_ms)
        return result, stops > 0

    def _begin_step(self, step: int) -> float:
        """Set learning rates and frozen parameters, and clear the gradients; return the rate."""
        rate = set_learning_rates(
            self.optimizer, self._train_settings.SCHED, self._learning_rate, step, self._total_steps
        )
        self.optimizer.zero_grad(set_to_none=True)
        if set_frozen(self._frozen, step):
            self._replica.renew()
        return rate

    def _micro_step(self, batch: Batch, step: int, micro: int) -> dict[str, torch.Tensor]:
        """Accumulate the gradients of a micro-batch, divided by the number of micro-steps.

        Args:
            batch: batch as the objective prepared it.
            step: finished optimiser steps.
            micro: number of the micro-step, from 0; the last one averages the gradients over all
                processes.

        Returns:
            the detached loss terms, divided by the number of micro-steps.
        """
        steps = self._micro_steps
        number = step * self._micro_batches + micro * self._ranks.world_size + self._ranks.rank
        seed_everything(self._seed, number)
        # Autocast keeps the casts of weights until its end: recomputation takes them from there.
        with self._replica.accumulate(sync=micro == steps - 1), self.precision.autocast():
            with section("forward"):
                batch = self._objective.add_targets(batch)
                output = self._objective.forward(self._replica.module, batch)
            with section("loss"), self.precision.full_precision():
                terms = self._objective.losses(output.float(), batch, step)
                loss = torch.stack(list(terms.values())).sum() / steps
            with section("backward") as switch, self.precision.full_precision():
                self._replica.time_wait(switch)
                self.precision.scaler.scale(loss).backward()
        return {name: term.detach() / steps for name, term in terms.items()}

    def _clip_gradients(self) -> torch.Tensor:
        """Undo the loss scale and clip the gradients; return their norm before clipping."""
        self.precision.scaler.unscale_(self.optimizer)
        limit = self._train_settings.MAX_GRAD_NORM or math.inf
        return nn.utils.clip_grad_norm_(self.model.parameters(), limit)

    def _update_weights(self, finite: bool) -> None:
        """Apply the gradients and update the moving average, unless gradients are not finite."""
        self.precision.step(self.optimizer, finite)
        if finite and self._average is not None:
            self._average.update_parameters(self.model)
