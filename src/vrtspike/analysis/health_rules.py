"""Symptoms of a run that spoils its result or learns no more."""

from __future__ import annotations

from typing import Any

from vrtspike.analysis.figures import RunFigures
from vrtspike.analysis.finding import Finding, rule
from vrtspike.config.run_schema import RunSettings

GRADIENT_EXPLOSION = 100.0
GRADIENT_VANISHING = 1e-3
SKIPPED_SHARE = 0.05
FALLEN = 0.99
"""Of the first losses; a loss that stays above it has not fallen."""
LATER_VALIDATIONS = 5


@rule(
    symptom="loss not finite",
    cause="numbers beyond the range of 16 bits, too large a first loss scale, a step too far",
    measured="`loss` of every logged step",
    limit="one that is no number",
    cure="`bf16-mixed` instead of `16-mixed`, or a first loss scale of 1024 "
    "(`TRAIN.AMP_INIT_SCALE`); half of `TRAIN.MAX_GRAD_NORM`; a longer warm-up, a lower rate; if "
    "it stays, `TRAIN.PRECISION: '32'`",
)
def not_finite(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A loss that is not a number."""
    health = figures.health
    if health.losses_not_finite == 0:
        return None
    return Finding(
        not_finite.symptom,
        "error",
        1.0,
        f"{health.losses_not_finite} of {health.logged_steps} logged losses are not finite, the "
        f"first at step {health.first_not_finite}",
        f"calmer arithmetic and tighter clipping; {_calmer_words(settings)}",
        "the loss stays finite; bf16 has the range of float32 and needs no loss scale",
        _calmer(settings),
    )


@rule(
    symptom="gradient norm exploding",
    cause="a bad batch, a rate that is too high, too short a warm-up",
    measured="`grad_norm` of every logged step, the largest over the median",
    limit=f"over {GRADIENT_EXPLOSION:.0f} times; an error without clipping or where the loss was "
    "lost, else a warning",
    cure="as for a loss that is not finite",
)
def exploding_gradient(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A gradient norm far above its usual value."""
    median, largest = figures.health.gradient_norm_median, figures.health.gradient_norm_max
    if median is None or largest is None or largest <= GRADIENT_EXPLOSION * median:
        return None
    harmed = settings.TRAIN.MAX_GRAD_NORM is None or figures.health.losses_not_finite > 0
    return Finding(
        exploding_gradient.symptom,
        "error" if harmed else "warning",
        0.5,
        f"largest gradient norm {largest:.3g}, {largest / median:.0f} times the median "
        f"{median:.3g} (limit {GRADIENT_EXPLOSION:.0f} times)",
        f"calmer arithmetic and tighter clipping; {_calmer_words(settings)}",
        "single bad batches move the weights less",
        _calmer(settings),
    )


@rule(
    symptom="gradient norm vanishing",
    cause="small gradients that are 0 in 16 bits; weights that were destroyed",
    measured="`grad_norm`, median of the last tenth of the logged steps over that of the first",
    limit=f"under {GRADIENT_VANISHING:g}",
    cure="`bf16-mixed` instead of `16-mixed`, whose small gradients become 0; else look whether "
    "the loss is 0 or the rate has destroyed the weights (`TRAIN.OPTIM.LR`)",
)
def vanishing_gradient(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A gradient that has come to nothing."""
    first, last = figures.health.first_gradient_norms, figures.health.last_gradient_norms
    if first is None or last is None or last >= GRADIENT_VANISHING * first:
        return None
    keys = {"TRAIN.PRECISION": "bf16-mixed"} if _has_loss_scale(settings) else {}
    return Finding(
        vanishing_gradient.symptom,
        "error",
        0.5,
        f"median gradient norm {last:.3g} in the last tenth of the steps, {first:.3g} in the first "
        f"(limit {GRADIENT_VANISHING:g} of it)",
        "bf16, whose small numbers do not become 0"
        if keys
        else "a lower rate (TRAIN.OPTIM.LR) or a longer warm-up, from the beginning",
        "the model goes on learning",
        keys,
    )


@rule(
    symptom="skipped steps",
    cause="a loss scale too large for 16 bits",
    measured="`skipped` of every logged step: its gradient was not finite",
    limit=f"over {SKIPPED_SHARE:.0%} of them",
    cure="`bf16-mixed`, or a smaller `TRAIN.AMP_INIT_SCALE`",
)
def skipped_steps(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """Optimiser steps that were computed for nothing."""
    health = figures.health
    share = health.skipped_steps / max(1, health.logged_steps)
    if share <= SKIPPED_SHARE:
        return None
    return Finding(
        skipped_steps.symptom,
        "warning",
        share,
        f"{health.skipped_steps} of {health.logged_steps} logged steps were skipped, for their "
        f"gradient was not finite (limit {SKIPPED_SHARE:.0%})",
        f"calmer arithmetic and tighter clipping; {_calmer_words(settings)}",
        f"{share:.0%} of the run's time is used",
        _calmer(settings),
    )


def _has_loss_scale(settings: RunSettings) -> bool:
    return settings.TRAIN.PRECISION in ("16-mixed", "mixed")


def _calmer(settings: RunSettings) -> dict[str, Any]:
    train = settings.TRAIN
    keys: dict[str, Any] = {}
    if _has_loss_scale(settings):
        keys["TRAIN.PRECISION"] = "bf16-mixed"
        keys["TRAIN.AMP_INIT_SCALE"] = min(train.AMP_INIT_SCALE, 1024.0)
    keys["TRAIN.MAX_GRAD_NORM"] = 1.0 if train.MAX_GRAD_NORM is None else train.MAX_GRAD_NORM / 2
    return keys


def _calmer_words(settings: RunSettings) -> str:
    """What else helps."""
    calm = "a longer warm-up (TRAIN.SCHED.WARMUP_STEPS) or a lower rate (TRAIN.OPTIM.LR)"
    if settings.TRAIN.PRECISION == "32":
        return f"if that is not enough, {calm}"
    return f"if that is not enough, {calm}, then TRAIN.PRECISION: '32'"


def _where_data_show(settings: RunSettings) -> str:
    """Where a person sees whether a network can learn from the data at all."""
    if settings.value("MODEL.USE_SPIKE"):
        return "the alignment of spikes and frames (results/data/<data set>/alignment.csv)"
    return "what its samples show"


@rule(
    symptom="loss does not fall",
    cause="a rate that is too high or low, wrong weights at the start, samples that do not fit "
    "together (spikes of other frames)",
    measured="`loss`, median of the last tenth of the logged steps over that of the first",
    limit=f"over {FALLEN:.0%}; a hint where training began with `MODEL.VRT.PRETRAINED`",
    cure="a lower `TRAIN.OPTIM.LR` or a longer warm-up; then the weights that it started from, "
    "and the samples; with spikes, their alignment with frames (`alignment.csv`)",
)
def stuck_loss(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A run that does not learn."""
    first, last = figures.health.first_losses, figures.health.last_losses
    if first is None or last is None or last <= FALLEN * first:
        return None
    trained = settings.value("MODEL.VRT.PRETRAINED") is not None
    return Finding(
        stuck_loss.symptom,
        "hint" if trained else "warning",
        0.0 if trained else 1.0,
        f"median loss {last:.3g} in the last tenth of the steps, {first:.3g} in the first",
        "a lower rate; then look at the weights it started from, and at "
        f"{_where_data_show(settings)}",
        "the weights it started from may have been trained to their end: compare the validation"
        if trained
        else "a loss that falls",
        {} if trained else {"TRAIN.OPTIM.LR": settings.TRAIN.OPTIM.LR / 2},
    )


@rule(
    symptom="validation no longer improves",
    cause="more epochs than the data are worth",
    measured="validations after the best one, by the first metric that was measured",
    limit=f"{LATER_VALIDATIONS} or more, without `TRAIN.EARLY_STOPPING`",
    cure="`TRAIN.EARLY_STOPPING`, or fewer epochs; the best weights are kept in any case "
    "(`best.safetensors` of the run)",
)
def late_run(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A run that goes on long after its best validation."""
    health = figures.health
    if settings.TRAIN.EARLY_STOPPING is not None or health.best_step is None:
        return None
    if health.later_validations < LATER_VALIDATIONS:
        return None
    return Finding(
        late_run.symptom,
        "hint",
        0.0,
        f"the best validation was after step {health.best_step}; none of the "
        f"{health.later_validations} later ones was better",
        "stop early, or look whether the model learns the training data by heart",
        "the time of the steps after the best ones",
        {"TRAIN.EARLY_STOPPING": {"METRIC": "main", "PATIENCE": LATER_VALIDATIONS}},
    )
