"""The training loop: any objective, any model, any batches; one process or many; stop and resume.

Read :meth:`Trainer.run` first, then :meth:`vrtspike.training.learner.Learner.step`. Everything in a
step (samples, random numbers, learning rate) is a pure function of the settings and the number of
the step, so that a resumed run computes the same as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from vrtspike.config.run_schema import RunSettings, TrainSettings
from vrtspike.io.weights import load_trained_weights
from vrtspike.launching.signals import StopRequest
from vrtspike.monitoring.timing import TimingLogger, section
from vrtspike.runs.file_names import BEST_WEIGHTS, LOGS
from vrtspike.system.errors import RunError
from vrtspike.system.progress_bar import format_duration
from vrtspike.training.checkpoints import (
    latest_checkpoint,
    micro_batches_per_step,
    restore_training_state,
    save_checkpoint,
)
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.flops import estimate_flops
from vrtspike.training.learner import Learner
from vrtspike.training.objectives import TrainingParts
from vrtspike.training.optimizers import count_steps
from vrtspike.training.profiling import profiler
from vrtspike.training.progress import Epochs, RunCounters, StepResult, Throughput
from vrtspike.training.run_log import RunLog
from vrtspike.training.validation import ValidationPictures, validate_model, watched_metric

if TYPE_CHECKING:
    from torch.distributed.checkpoint.stateful import Stateful
    from torch.profiler import profile

MAX_SKIPPED_IN_A_ROW = 20
"""Skipped optimiser steps in a row after which a run fails."""


class Trainer:
    """Training of a model for an objective, from the newest checkpoint of its run, if any.

    Args:
        parts: model, objective and batches of this process.
        settings: the sections TRAIN and LOG, and SEED, are read.
        ranks: the processes of the run.
        log: the run's records and messages; nothing is written before :meth:`run`.
        timing: the timing logger; enabled on the first process only.

    Raises:
        RunError: if the checkpoint is damaged, belongs to another run or another half precision, or
            cannot be continued by these processes.
    """

    def __init__(
        self,
        parts: TrainingParts,
        settings: RunSettings,
        ranks: DistributedContext,
        log: RunLog,
        timing: TimingLogger,
    ) -> None:
        checkpoint = latest_checkpoint(log.checkpoints)
        micro_batches = micro_batches_per_step(settings.TRAIN, ranks.world_size, checkpoint)
        self.parts = parts
        self.settings = settings
        self.ranks = ranks
        self.log = log
        self.timing = timing
        self.display = log.display
        self.micro_batches_per_step = micro_batches
        self.epochs = Epochs(parts.training_batches.per_epoch, micro_batches)
        self.total_steps = count_steps(settings, parts.training_batches.per_epoch, micro_batches)
        self.counters = RunCounters()
        self.learner = Learner(parts, settings, ranks, micro_batches, self.total_steps)
        # The objects whose states a checkpoint holds, by their keys in it.
        self.stateful: dict[str, Stateful] = {
            "progress": self.counters,
            **self.learner.stateful_objects(),
        }
        if checkpoint is not None:
            restore_training_state(log.checkpoints, checkpoint, log.fingerprint, self.stateful)

    def run(self, stop: StopRequest) -> Literal["finished", "interrupted"]:
        """Train to the end or to a request to stop, and save the state in both cases.

        Raises:
            RunError: with keys that may help, if training has diverged.
        """
        self._begin_logs()
        stream = self._open_stream()
        # Starting workers and measuring arithmetic are no part of the first step.
        throughput = Throughput(self.counters.step, self.total_steps)
        with self._profiler() as profile, self.timing.activate():
            # The run may have been stopped before the validation of its last step.
            stopping = self._validation_is_due() and not self._validate(stop)
            if self._best_is_published():
                self._save()
            # A run that was killed after a checkpoint may lack the weights of its validation, too.
            self._write_best()
            while not stopping and not self._is_finished():
                with section("step"):
                    result, stopping = self.learner.step(stream, self.counters.step, stop)
                    self.counters.count(result)
                if profile is not None:
                    profile.step()
                self._record(result, throughput)
                if self.counters.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
                    raise self._divergence("training has diverged")
                if not stopping and self._validation_is_due():
                    stopping = not self._validate(stop)
                self._end_step(result, stopping)
        if stopping:
            self.display.show(
                f"saved at step {self.counters.step} of {self.total_steps}; the same command "
                "continues from there"
            )
            return "interrupted"
        return "finished"

    def _begin_logs(self) -> None:
        """Open the logs, without records of steps after the checkpoint."""
        counters = self.counters
        if counters.step > 0:
            self.display.show(f"resuming after step {counters.step} of {self.total_steps}")
        self.log.begin(counters.step, counters.validated_step, counters.epoch_samples > 0)
        self.log.write_memory(counters.step, self.ranks.device)

    def _open_stream(self) -> Iterator[Any]:
        """Return the batches of this process for the steps after the checkpoint."""
        first = self.counters.step * self.micro_batches_per_step + self.ranks.rank
        last = self.total_steps * self.micro_batches_per_step
        stream = self.parts.training_batches.stream(first, self.ranks.world_size, end=last)
        if self.timing.enabled and not self._is_finished():
            stream = self._note_arithmetic(stream)
        return stream

    def _note_arithmetic(self, stream: Iterator[Any]) -> Iterator[Any]:
        """Estimate the arithmetic of a step with the next batch; return all batches."""
        batch = next(stream)
        precision = self.learner.precision
        arithmetic = estimate_flops(self.parts, batch, precision, self.ranks)
        self.timing.note_arithmetic(arithmetic)
        return chain([batch], stream)

    def _end_step(self, result: StepResult, stopping: bool) -> None:
        """Log the timings of a step, and save a checkpoint if one is due.

        Args:
            result: result of the step.
            stopping: true if the run was requested to stop.
        """
        # Timings are written before the checkpoint, so that a crash after it leaves no gap in them.
        self.timing.step(self.counters.step, result.samples, result.frames)
        is_due = self.counters.step % self.settings.TRAIN.SAVE_EVERY_STEPS == 0
        # The best weights follow their checkpoint: a run that continues from an earlier one would
        # otherwise publish the weights of a validation that it does not know.
        if stopping or is_due or self._is_finished() or self._best_is_published():
            self._save()
        self._write_best()

    def _record(self, result: StepResult, throughput: Throughput) -> None:
        """Log and show a step."""
        step = self.counters.step
        self.counters.epoch_seconds += throughput.count(result.samples)
        self._show_step(result, throughput)
        self.log.write("train", step, self._epoch(), result.record(throughput.samples_per_second))
        if self.epochs.is_last_step(step) or step >= self.total_steps:
            self._close_epoch()
        if step % self.settings.LOG.MEMORY_EVERY_STEPS == 0:
            self.log.write_memory(
                step, self.ranks.device, self.parts.training_batches.cache_stats()
            )

    def _show_step(self, result: StepResult, throughput: Throughput) -> None:
        """Show a step in the progress line."""
        step = self.counters.step
        parts = [
            f"step {step}/{self.total_steps}",
            f"eta {format_duration(throughput.remaining_seconds(step))}",
            f"epoch {self._epoch()}",
            f"loss {result.loss:.4f}",
        ]
        metric = self.counters.metrics.get(self.parts.objective.metric)
        if metric is not None:
            parts.append(f"{self.parts.objective.metric} {metric:.4g}")
        parts.append(f"{throughput.samples_per_second:.3g} samples/s")
        parts.append(f"data {result.data_ms:.1f} ms")
        self.display.update(" | ".join(parts), step / self.total_steps)

    def _divergence(self, symptom: str) -> RunError:
        """Return the error of a run whose numbers are no longer finite."""
        rate = self.learner.optimizer.param_groups[0]["lr"]
        precision = self.learner.precision.name
        return divergence_error(symptom, self.counters, rate, self.settings.TRAIN, precision)

    def _validation_is_due(self) -> bool:
        step = self.counters.step
        if self.parts.validation_batches is None or self.counters.validated_step == step:
            return False
        if step >= self.total_steps:
            return True
        interval = self.settings.LOG.VAL_EVERY_STEPS
        if interval is None:
            return self.epochs.is_last_step(step)
        return step % interval == 0

    def _validate(self, stop: StopRequest) -> bool:
        """Validate and record the result; return false if a request to stop interrupted it."""
        precision = self.learner.precision
        with section("validation"):
            try:
                outcome = validate_model(
                    self.learner.trained_model(), self.parts, self.ranks, precision, stop
                )
            except FloatingPointError as error:
                raise self._divergence(f"training has diverged, {error}") from error
        if outcome is None:
            return False
        self._record_validation(*outcome)
        if self._is_finished() and self.counters.epoch_samples > 0:
            self._close_epoch()
        return True

    def _record_validation(self, metrics: dict[str, float], pictures: ValidationPictures) -> None:
        """Log and show a validation."""
        step = self.counters.step
        watched = watched_metric(
            self.parts.objective.metric, self.settings.TRAIN.EARLY_STOPPING, metrics
        )
        last_validated = self.counters.validated_step
        is_best = self.counters.note_validation(
            metrics, watched, self.parts.objective.lower_is_better
        )
        self.log.write("validation", step, self._epoch(), metrics)
        if self._pictures_are_due(last_validated):
            self.log.write_pictures(step, pictures)
        values = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        mark = " (best)" if is_best else ""
        self.display.show(f"validation after step {step}: {values}{mark}")

    def _pictures_are_due(self, last_validated: int) -> bool:
        """Return whether LOG.VISUALS_EVERY_STEPS selects the pictures of this validation.

        Args:
            last_validated: step of the validation before.
        """
        interval = self.settings.LOG.VISUALS_EVERY_STEPS or 1
        passes_multiple = self.counters.step // interval > last_validated // interval
        return passes_multiple or self._is_finished()

    def _is_best(self) -> bool:
        """Return whether the last step ended with the best validation so far."""
        return 0 < self.counters.best_step == self.counters.step

    def _best_is_published(self) -> bool:
        """Return whether the weights of the last step would be published."""
        return self._is_best() and self.settings.TRAIN.EARLY_STOPPING is not None

    def _write_best(self) -> None:
        """Write the weights of the last step if its validation is the best so far."""
        if self._is_best():
            self.log.write_weights(self.learner.trained_model(), BEST_WEIGHTS)

    def load_best(self) -> None:
        """Load the weights of the best validation; without one, keep the last weights.

        Raises:
            RunError: if their file is missing or damaged.
        """
        if self.counters.best_step == 0:
            return
        # The first process writes the file.
        self.ranks.barrier()
        load_trained_weights(self.learner.trained_model(), self.log.folder / BEST_WEIGHTS)
        self.display.show(f"the weights are those after step {self.counters.best_step} (best)")

    def _close_epoch(self) -> None:
        """Log time and throughput of the epoch, which may be incomplete."""
        epoch = self._epoch()
        values = self.counters.close_epoch()
        self.log.write("epoch", self.counters.step, epoch, values)
        self.display.note(
            f"epoch {epoch}: {format_duration(values['seconds'])}, {values['samples']} samples, "
            f"{values['samples_per_second']:.3g} samples/s"
        )

    def _is_finished(self) -> bool:
        if self.counters.step >= self.total_steps:
            return True
        stopping = self.settings.TRAIN.EARLY_STOPPING
        return stopping is not None and self.counters.without_improvement >= stopping.PATIENCE

    def _epoch(self) -> int:
        """Return the epoch of the last step."""
        return self.epochs.number_of_step(self.counters.step)

    def _profiler(self) -> AbstractContextManager[profile | None]:
        """Return PyTorch's profiler for the steps of LOG.PROFILE_STEPS, or a context of None."""
        window = self.settings.LOG.PROFILE_STEPS
        if window is None or not self.ranks.is_main or self._is_finished():
            return nullcontext()
        logs = self.log.folder / LOGS
        return profiler(window, self.counters.step, logs, self.ranks.device, self.display)

    def _save(self) -> None:
        """Write a checkpoint; all processes wait for it."""
        with section("checkpoint"):
            if self.ranks.is_main:
                self.log.flush()
                self.timing.flush()
                state = {
                    "step": self.counters.step,
                    "fingerprint": self.log.fingerprint,
                    "micro_batches": self.micro_batches_per_step,
                    **{name: stateful.state_dict() for name, stateful in self.stateful.items()},
                }
                save_checkpoint(self.log.checkpoints, state, self.settings.TRAIN.KEEP_LAST)
                entries = self.counters.entries()
                self.log.record.update("running", self.counters.step, **entries)
            self.ranks.barrier()


def divergence_error(
    symptom: str, counters: RunCounters, rate: float, train: TrainSettings, precision: str
) -> RunError:
    """Return the error of a training that has diverged.

    Args:
        symptom: start of the message.
        counters: counters of the run.
        rate: current learning rate.
        train: settings of TRAIN, which the advice names.
        precision: name of the arithmetic.
    """
    skipped = counters.skipped_in_a_row
    if skipped:
        first = counters.step - skipped + 1
        symptom += f"; no gradient is finite and nothing is learned since step {first}"
    return RunError(
        f"step {counters.step}, learning rate {rate:.3g}: {symptom}. The same command would fail "
        f"again. Any of these may help: {', '.join(_remedies(train, precision))}; with other "
        "settings the run starts from the beginning"
    )


def _remedies(train: TrainSettings, precision: str) -> list[str]:
    """Return the keys that may help, with their current values."""
    remedies = [f"lower TRAIN.OPTIM.LR (now {train.OPTIM.LR:g})"]
    if train.MAX_GRAD_NORM is None:
        remedies.append("set TRAIN.MAX_GRAD_NORM (now null)")
    else:
        remedies.append(f"lower TRAIN.MAX_GRAD_NORM (now {train.MAX_GRAD_NORM:g})")
    if precision in ("16-mixed", "bf16-true"):
        remedies.append(f"set TRAIN.PRECISION to bf16-mixed or 32 (now {precision})")
    if precision == "16-mixed":
        remedies.append(f"lower TRAIN.AMP_INIT_SCALE (now {train.AMP_INIT_SCALE:g})")
    return remedies
