"""The error of a training whose numbers are no longer finite, with keys that may help."""

from __future__ import annotations

from vrtspike.config.run_schema import TrainSettings
from vrtspike.system.errors import RunError
from vrtspike.training.progress import RunCounters


def divergence(
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
