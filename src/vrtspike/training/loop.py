"""The training loop: any task, any model, any batches; one process or many; stop and resume.

Read :meth:`Trainer.run` first. Everything in a step (samples, random numbers, learning rate) is a
pure function of the settings and the number of the step, so that a resumed run computes what an
uninterrupted one does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.profiler import profile, schedule

from vrtspike.cluster.signals import StopRequest
from vrtspike.config.run_schema import MAIN_METRIC, RunSettings
from vrtspike.io.weights import load_trained
from vrtspike.monitoring.timing import TimingLogger, section
from vrtspike.runs.names import BEST_WEIGHTS, LOGS
from vrtspike.system.errors import RunError
from vrtspike.system.progress_bar import format_duration
from vrtspike.training.batches import seed_everything
from vrtspike.training.checkpoints import (
    latest_checkpoint,
    micro_batches_per_step,
    restore,
    save_checkpoint,
)
from vrtspike.training.distributed import AllReduce, Ranks, accumulate, replicate
from vrtspike.training.optimizers import (
    build_optimizer,
    freeze,
    parameter_groups,
    scaled_learning_rate,
    set_learning_rates,
    total_steps,
    trainable_groups,
)
from vrtspike.training.precision import Precision
from vrtspike.training.progress import Progress, Speed, StepResult, estimate_arithmetic, validate
from vrtspike.training.run_log import RunLog
from vrtspike.training.tasks import Batch, Trainable

if TYPE_CHECKING:
    from torch.distributed.checkpoint.stateful import Stateful

MAX_SKIPPED_IN_A_ROW = 20
"""A run fails after this many skipped optimiser steps in a row."""


class Trainer:
    """Trains a model for a task.

    Args:
        problem: model, task and batches of this process.
        settings: the sections TRAIN and LOG, and SEED, are read.
        ranks: the processes of the run.
        log: the run's records and messages.
        timing: the timing logger; enabled on the first process only.
    """

    def __init__(
        self,
        problem: Trainable,
        settings: RunSettings,
        ranks: Ranks,
        log: RunLog,
        timing: TimingLogger,
    ) -> None:
        train = settings.TRAIN
        model, batches = problem.model, problem.training
        self.problem, self.task, self.batches = problem, problem.task, batches
        self.train, self.settings = train, settings
        self.ranks, self.log, self.timing, self.display = ranks, log, timing, log.display
        self.precision = Precision(train, ranks.device)
        # Weights that stay as they come are not rounded (bf16-true).
        is_kept = settings.kept_start is not None
        self.model = model if is_kept else self.precision.prepare(model)
        checkpoint = latest_checkpoint(log.checkpoints)
        self.micro_batches = micro_batches_per_step(train, ranks.world_size, checkpoint)
        self.total = total_steps(settings, batches.per_epoch, self.micro_batches)
        self.learning_rate = scaled_learning_rate(train, self.micro_batches)
        groups = trainable_groups(model)
        frozen = problem.frozen_steps.items()
        self.frozen = [(p, steps) for name, steps in frozen for p in groups[name]]
        self.optimizer = build_optimizer(
            parameter_groups(groups, self.learning_rate, problem.rate_factors), train.OPTIM
        )
        self.average: AveragedModel | None = None
        self.progress = Progress()
        self.parts: dict[str, Stateful] = {
            "progress": self.progress,
            "model": model,
            "precision": self.precision.scaler,
            "optimizer": self.optimizer,
        }
        if train.EMA > 0:
            self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(train.EMA))
            self.parts["average"] = self.average
        self._resume(checkpoint)
        if train.COMPILE_MODEL:
            model.compile(mode=train.COMPILE_MODE)
        self.exchange = AllReduce()
        self.replica = replicate(self.model, ranks, self.exchange)

    def run(self, stop: StopRequest) -> Literal["finished", "interrupted"]:
        """Train to the end or to a request to stop; the state is saved in both cases."""
        save_every = self.train.SAVE_EVERY_STEPS
        speed = Speed(self.progress.step, self.total)
        first = self.progress.step * self.micro_batches + self.ranks.rank
        last = self.total * self.micro_batches
        stream = self.batches.stream(first, self.ranks.world_size, until=last)
        if self.timing.enabled and not self._is_finished():
            batch = next(stream)
            arithmetic = estimate_arithmetic(self.problem, batch, self.precision, self.ranks)
            self.timing.note_arithmetic(arithmetic)
            stream = chain([batch], stream)
        with self._profiler() as profiler, self.timing.activate():
            # The run may have been stopped before the validation of its last step.
            stopping = self._validation_is_due() and not self._validate(stop)
            while not stopping and not self._is_finished():
                with section("step"):
                    result, stopping = self._step(stream, stop)
                if profiler is not None:
                    profiler.step()
                self._record(result, speed)
                if not stopping and self._validation_is_due():
                    stopping = not self._validate(stop)
                # Before the checkpoint, so that a crash after it leaves no gap in the timings.
                self.timing.step(self.progress.step, result.samples, result.frames)
                if stopping or self._is_finished() or self.progress.step % save_every == 0:
                    self._save()
        if stopping:
            self.display.show(
                f"saved at step {self.progress.step} of {self.total}; the same command continues "
                "from there"
            )
            return "interrupted"
        return "finished"

    def trained_model(self) -> nn.Module:
        """The model that is validated and published: the moving average (TRAIN.EMA), if any."""
        return self.model if self.average is None else self.average.module

    def _step(self, stream: Iterator[Any], stop: StopRequest) -> tuple[StepResult, bool]:
        """One optimiser step; returns its result and whether any process was asked to stop."""
        done, steps = self.progress.step, self.micro_batches // self.ranks.world_size
        rate = set_learning_rates(
            self.optimizer, self.train.SCHED, self.learning_rate, done, self.total
        )
        self.optimizer.zero_grad(set_to_none=True)
        if freeze(self.frozen, done):
            # DistributedDataParallel reads requires_grad only once.
            self.replica = replicate(self.model, self.ranks, self.exchange)
        sums: dict[str, torch.Tensor] = {}
        samples = frames = 0
        data_ms = 0.0
        for micro in range(steps):
            started = time.perf_counter()
            with section("data"):
                batch = self.task.prepare(next(stream), self.ranks.device)
            data_ms += 1e3 * (time.perf_counter() - started)
            for name, term in self._micro_step(batch, micro, steps).items():
                sums[name] = sums.get(name, 0) + term
            count = self.task.size(batch)
            samples, frames = samples + count[0], frames + count[1]
        with section("optimizer"):
            self.precision.scaler.unscale_(self.optimizer)
            limit = math.inf if self.train.MAX_GRAD_NORM is None else self.train.MAX_GRAD_NORM
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit)
            own = (samples, frames, int(stop.received is not None))
            losses, norm_value, (samples, frames, stops) = self._reduce(sums, norm, own)
            finite = math.isfinite(norm_value)
            self.precision.step(self.optimizer, finite)
            if finite and self.average is not None:
                self.average.update_parameters(self.model)
        result = StepResult(losses, rate, norm_value, not finite, samples, frames, data_ms)
        self.progress.count(result)
        return result, stops > 0

    def _micro_step(self, batch: Batch, micro: int, steps: int) -> dict[str, torch.Tensor]:
        """Accumulate the gradients of one micro-batch, divided by ``steps``.

        Args:
            batch: as the task prepared it.
            micro: number of the micro-step, from 0; the last one averages the gradients over all
                processes.
            steps: micro-steps of this process in an optimiser step.

        Returns:
            the detached loss terms, divided by ``steps``.
        """
        done = self.progress.step
        number = done * self.micro_batches + micro * self.ranks.world_size + self.ranks.rank
        seed_everything(self.settings.SEED, number)
        with accumulate(self.replica, sync=micro == steps - 1):
            with section("forward"), self.precision.autocast():
                output = self.task.forward(self.replica, batch)
            with section("loss"), self.precision.exact():
                terms = self.task.losses(output.float(), batch, done)
                loss = torch.stack(list(terms.values())).sum() / steps
            with section("backward") as switch:
                self.exchange.switch = switch
                self.precision.scaler.scale(loss).backward()
        return {name: term.detach() / steps for name, term in terms.items()}

    def _reduce(
        self, sums: dict[str, torch.Tensor], norm: torch.Tensor, counts: Sequence[int]
    ) -> tuple[dict[str, float], float, list[int]]:
        """Mean losses, gradient norm and the sums of the counts, equal on all processes.

        The step's only all-reduce besides the gradients' and its only synchronisation with the
        device: gradients must be known to be finite before they are applied.
        """
        own = torch.tensor(counts, dtype=torch.float32, pin_memory=norm.is_cuda)
        terms = [term.float() for term in sums.values()]
        own = own.to(norm.device, non_blocking=True)
        shared = self.ranks.sum(torch.cat([torch.stack(terms), own]))
        *values, norm_value = torch.cat([shared, norm.float()[None]]).tolist()
        losses, totals = values[: len(terms)], values[len(terms) :]
        world = self.ranks.world_size
        means = {name: loss / world for name, loss in zip(sums, losses, strict=True)}
        return means, norm_value, [round(total) for total in totals]

    def _record(self, result: StepResult, speed: Speed) -> None:
        """Log and show a step; fail after too many skipped steps."""
        step = self.progress.step
        self.progress.epoch_seconds += speed.count(result.samples)
        epoch, metric = self._epoch(), self.progress.metrics.get(self.task.metric)
        parts = [
            f"step {step}/{self.total}",
            f"eta {format_duration(speed.remaining(step))}",
            f"epoch {epoch}",
            f"loss {result.loss:.4f}",
            *([] if metric is None else [f"{self.task.metric} {metric:.4g}"]),
            f"{speed.samples_per_second:.3g} samples/s",
            f"data {result.data_ms:.1f} ms",
        ]
        self.display.update(" | ".join(parts), step / self.total)
        figures = {
            "loss": result.loss,
            "losses": result.losses,
            "lr": result.learning_rate,
            "grad_norm": result.gradient_norm,
            "skipped": result.skipped,
            "samples_per_second": round(speed.samples_per_second, 4),
            "data_ms": round(result.data_ms, 3),
        }
        self.log.write("train", step, epoch, figures)
        epoch_ends = step * self.micro_batches // self.batches.per_epoch >= epoch
        if epoch_ends or step >= self.total:
            self._close_epoch()
        if step % self.settings.LOG.MEMORY_EVERY_STEPS == 0:
            self.log.memory(step, self.ranks.device, self.batches.cache_use())
        if self.progress.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise self._divergence("training has diverged")

    def _divergence(self, symptom: str) -> RunError:
        """The error of a run whose numbers are no longer finite."""
        step, skipped = self.progress.step, self.progress.skipped_in_a_row
        rate = self.optimizer.param_groups[0]["lr"]
        if skipped:
            symptom += (
                f"; no gradient is finite and nothing is learned since step {step - skipped + 1}"
            )
        return RunError(
            f"step {step}, learning rate {rate:.3g}: {symptom}. The same command would fail again. "
            f"{self._advice_on_divergence()}; with other settings the run starts from the beginning"
        )

    def _advice_on_divergence(self) -> str:
        """The keys that may help, with their present values."""
        train, precision = self.train, self.precision.name
        keys = [f"lower TRAIN.OPTIM.LR (now {train.OPTIM.LR:g})"]
        if train.MAX_GRAD_NORM is None:
            keys.append("set TRAIN.MAX_GRAD_NORM (now null)")
        else:
            keys.append(f"lower TRAIN.MAX_GRAD_NORM (now {train.MAX_GRAD_NORM:g})")
        if precision in ("16-mixed", "bf16-true"):
            keys.append(f"set TRAIN.PRECISION to bf16-mixed or 32 (now {precision})")
        if precision == "16-mixed":
            keys.append(f"lower TRAIN.AMP_INIT_SCALE (now {train.AMP_INIT_SCALE:g})")
        return "Any of these may help: " + ", ".join(keys)

    def _validation_is_due(self) -> bool:
        step = self.progress.step
        if self.problem.validation is None or self.progress.validated_step == step:
            return False
        return step % self.settings.LOG.VAL_EVERY_STEPS == 0 or step >= self.total

    def _validate(self, stop: StopRequest) -> bool:
        """Validate and keep the best weights; returns False if a request to stop interrupted it."""
        step = self.progress.step
        with section("validation"):
            model = self.trained_model()
            try:
                found = validate(model, self.problem, self.ranks, self.precision, stop)
            except FloatingPointError as error:
                raise self._divergence(f"training has diverged, {error}") from error
        if found is None:
            return False
        metrics, pictures = found
        stopping, watched = self.train.EARLY_STOPPING, self.task.metric
        if stopping is not None and stopping.METRIC != MAIN_METRIC:
            watched = stopping.METRIC
        if watched not in metrics:
            raise RunError(
                f"TRAIN.EARLY_STOPPING.METRIC is {watched}, but validation gives "
                f"{', '.join(metrics)}; set it to {MAIN_METRIC} for {self.task.metric}"
            )
        is_best = self.progress.note_validation(
            metrics, watched, getattr(self.task, "lower_is_better", ())
        )
        self.log.write("validation", step, self._epoch(), metrics)
        if step % (self.settings.LOG.VISUALS_EVERY_STEPS or 1) == 0:
            self.log.pictures(step, pictures)
        if is_best:
            self.log.weights(model, BEST_WEIGHTS)
        figures = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        self.display.show(f"validation after step {step}: {figures}{' (best)' * is_best}")
        if self._is_finished() and self.progress.epoch_samples > 0:
            self._close_epoch()
        return True

    def load_best(self) -> None:
        """Take the weights of the best validation; where none gave a figure, the last ones stay.

        Raises:
            RunError: if their file is missing or damaged.
        """
        if self.progress.best_step == 0:
            return
        # The first process writes the file.
        self.ranks.barrier()
        load_trained(self.trained_model(), self.log.folder / BEST_WEIGHTS)
        self.display.show(f"the weights are those after step {self.progress.best_step} (best)")

    def _close_epoch(self) -> None:
        """Log time and throughput of the epoch, which may be incomplete."""
        epoch, figures = self._epoch(), self.progress.close_epoch()
        self.log.write("epoch", self.progress.step, epoch, figures)
        self.display.note(
            f"epoch {epoch}: {format_duration(figures['seconds'])}, {figures['samples']} samples, "
            f"{figures['samples_per_second']:.3g} samples/s"
        )

    def _is_finished(self) -> bool:
        stopping = self.train.EARLY_STOPPING
        return self.progress.step >= self.total or (
            stopping is not None and self.progress.without_improvement >= stopping.PATIENCE
        )

    def _epoch(self) -> int:
        """The epoch of the last step's first micro-batch, from 1."""
        return (self.progress.step - 1) * self.micro_batches // self.batches.per_epoch + 1

    def _profiler(self) -> AbstractContextManager[profile | None]:
        """PyTorch's profiler for the steps of LOG.PROFILE_STEPS; None without that key.

        It writes ``profile_<first>-<last>.json`` (a trace for ui.perfetto.dev) and ``.txt`` (the
        operations that took most time) into the log folder.
        """
        window, done = self.settings.LOG.PROFILE_STEPS, self.progress.step
        is_due = window is not None and window[1] > done and not self._is_finished()
        if window is None or not is_due or not self.ranks.is_main:
            return nullcontext()
        before = max(0, window[0] - 1 - done)
        steps = schedule(
            wait=max(0, before - 1),
            warmup=min(1, before),
            active=window[1] - done - before,
            repeat=1,
        )
        return profile(schedule=steps, on_trace_ready=self._write_profile)

    def _write_profile(self, found: profile) -> None:
        assert self.settings.LOG.PROFILE_STEPS is not None
        steps = "{}-{}".format(*self.settings.LOG.PROFILE_STEPS)
        path = self.log.folder / LOGS / f"profile_{steps}.txt"
        found.export_chrome_trace(str(path.with_suffix(".json")))
        key = "self_cuda_time_total" if self.ranks.device.type == "cuda" else "self_cpu_time_total"
        path.write_text(found.key_averages().table(sort_by=key, row_limit=30), encoding="utf-8")
        self.display.note(f"profile of steps {steps}: {path}")

    def _save(self) -> None:
        """Write a checkpoint; all processes wait for it."""
        with section("checkpoint"):
            if self.ranks.is_main:
                self.log.flush()
                self.timing.flush()
                save_checkpoint(self.log.checkpoints, self._state(), self.train.KEEP_LAST)
                figures = self.progress.figures()
                self.log.record.update("running", self.progress.step, **figures)
            self.ranks.barrier()

    def _state(self) -> dict[str, Any]:
        """The contents of a checkpoint."""
        return {
            "step": self.progress.step,
            "fingerprint": self.log.fingerprint,
            "micro_batches": self.micro_batches,
            "optimizer_type": type(self.optimizer).__name__,
            **{name: part.state_dict() for name, part in self.parts.items()},
        }

    def _resume(self, checkpoint: dict[str, Any] | None) -> None:
        """Restore the checkpoint, if any, and open the logs."""
        if checkpoint is not None:
            restore(self.log.checkpoints, checkpoint, self.log.fingerprint, self.parts)
            self.display.show(f"resuming after step {self.progress.step} of {self.total}")
        progress = self.progress
        self.log.begin(progress.step, progress.validated_step, progress.epoch_samples > 0)
