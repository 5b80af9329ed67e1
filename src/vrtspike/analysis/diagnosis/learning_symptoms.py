"""Symptoms of a training that does not learn: its loss and its gradients."""

from __future__ import annotations

from vrtspike.analysis.diagnosis.symptom import Finding, Keys, RunFacts, Severity, symptom

MAX_GRADIENT_RATIO = 100
"""Limit of the largest gradient norm over the median."""
MIN_GRADIENT_RATIO = 0.001
"""Limit of the last gradient norms over the first."""

_LATER_CHANGES = (
    "if that is not enough, a longer warm-up (TRAIN.SCHED.WARMUP_STEPS) or a lower rate "
    "(TRAIN.OPTIM.LR), then TRAIN.PRECISION: '32'"
)


@symptom(
    "loss not finite",
    measured="`loss` of every logged step",
    reported="one that is NaN or infinite",
    cause="overflow of 16-bit numbers, an initial loss scale or a learning rate that is too high",
)
def loss_not_finite(run: RunFacts) -> Finding | None:
    """Find a loss that is not a number."""
    health = run.measurements.health
    if not health.losses_not_finite:
        return None
    effect = "the loss stays finite"
    if run.has_loss_scale:
        effect += "; bf16 has the range of float32 and needs no loss scale"
    return Finding(
        severity="error",
        weight=1.0,
        evidence=(
            f"{health.losses_not_finite} of {health.logged_steps} logged losses are not finite, "
            f"the first at step {health.first_not_finite}"
        ),
        change=_more_stable_change(run),
        effect=effect,
        keys=_more_stable_keys(run),
    )


@symptom(
    "gradient norm exploding",
    measured="`grad_norm` of every logged step, the largest over the median",
    reported=(
        f"over {MAX_GRADIENT_RATIO} times; an error without gradient clipping or if the loss is "
        "not finite, else a warning"
    ),
    cause="a faulty batch, a learning rate that is too high, a warm-up that is too short",
)
def exploding_gradient(run: RunFacts) -> Finding | None:
    """Find a gradient norm far above the median."""
    health = run.measurements.health
    median = health.gradient_norm_median
    largest = health.gradient_norm_max
    if not largest > MAX_GRADIENT_RATIO * median:
        return None
    severity: Severity = "warning"
    if run.settings.TRAIN.MAX_GRAD_NORM is None or health.losses_not_finite:
        severity = "error"
    return Finding(
        severity=severity,
        weight=0.5,
        evidence=(
            f"largest gradient norm {largest:.3g}, {largest / median:.0f} times the median "
            f"{median:.3g} (limit {MAX_GRADIENT_RATIO} times)"
        ),
        change=_more_stable_change(run),
        effect="single bad batches move the weights less",
        keys=_more_stable_keys(run),
    )


@symptom(
    "gradient norm vanishing",
    measured=("`grad_norm`, median of the last tenth of the logged steps over that of the first"),
    reported=f"under {MIN_GRADIENT_RATIO}",
    cause="small gradients that underflow to 0 in 16 bits; weights that have diverged",
)
def vanishing_gradient(run: RunFacts) -> Finding | None:
    """Find a gradient norm that has fallen to nearly zero."""
    health = run.measurements.health
    first = health.first_gradient_norms
    last = health.last_gradient_norms
    if not last < MIN_GRADIENT_RATIO * first:
        return None
    keys: Keys = {}
    change = "a lower rate (TRAIN.OPTIM.LR) or a longer warm-up, from the beginning"
    if run.has_loss_scale:
        keys["TRAIN.PRECISION"] = "bf16-mixed"
        change = "bf16, whose small numbers do not become 0"
    return Finding(
        severity="error",
        weight=0.5,
        evidence=(
            f"median gradient norm {last:.3g} in the last tenth of the steps, {first:.3g} in the "
            f"first (limit {MIN_GRADIENT_RATIO} of it)"
        ),
        change=change,
        effect="the model goes on learning",
        keys=keys,
    )


def _more_stable_change(run: RunFacts) -> str:
    """Return the sentence on what :func:`_more_stable_keys` changes."""
    if run.has_loss_scale:
        return f"more stable arithmetic and tighter clipping; {_LATER_CHANGES}"
    return f"tighter clipping; {_LATER_CHANGES}"


def _more_stable_keys(run: RunFacts) -> Keys:
    """Return keys that make training more stable."""
    train = run.settings.TRAIN
    keys: Keys = {}
    if run.has_loss_scale:
        keys["TRAIN.PRECISION"] = "bf16-mixed"
        keys["TRAIN.AMP_INIT_SCALE"] = min(train.AMP_INIT_SCALE, 1024.0)
    norm = train.MAX_GRAD_NORM
    keys["TRAIN.MAX_GRAD_NORM"] = 1.0 if norm is None else norm / 2
    return keys
