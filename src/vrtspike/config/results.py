"""Which settings change results; what staleness and the run's fingerprint are computed from."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from vrtspike.config.fields import is_operational
from vrtspike.config.schema import Settings


def result_settings(settings: Settings) -> dict[str, Any]:
    """The settings that decide a trained model: no workers, intervals, paths or memory bounds.

    The interval of validations counts only where early stopping watches them; the evaluation's
    settings never do (see :func:`evaluation_settings`).
    """
    result = _without_operational(settings)
    del result["TEST"]
    if settings.TRAIN.EARLY_STOPPING is not None:
        result["LOG"]["VAL_EVERY_STEPS"] = settings.LOG.VAL_EVERY_STEPS
    return result


def evaluation_settings(settings: Settings) -> dict[str, Any]:
    """The settings that decide the evaluation of given weights."""
    return {"TEST": _without_operational(settings.TEST)}


def _without_operational(section: BaseModel) -> dict[str, Any]:
    dumped = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if is_operational(field):
            del dumped[name]
        elif isinstance(value, BaseModel):
            dumped[name] = _without_operational(value)
    return dumped
