"""The part of a task in the advice on its runs: keys and words that it alone knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vrtspike.config.run_schema import RunSettings
from vrtspike.config.tasks import find_task, has_part


class TaskAdvice:
    """A task's advice on a run; a subclass replaces what its task knows."""

    @property
    def missing_weights(self) -> Mapping[str, str]:
        """Remedies for files of weights that are missing, by the key that names them."""
        return {}

    @property
    def first_steps(self) -> tuple[str, ...]:
        """Overrides such as ``TRAIN.EPOCHS=9`` that keep all steps like the first ones."""
        return ()

    @property
    def recompute_keys(self) -> tuple[str, ...]:
        """Keys that are set and recompute activations; the first one saves least memory."""
        return ()

    @property
    def smaller_model(self) -> str:
        """Changes that make the network cheaper and change the result, for a sentence."""
        return "a smaller model, which changes the result"

    def faster_loading(self, *, has_memory: bool) -> dict[str, Any]:
        """Return keys that make reading of the task's data faster, and are not set yet.

        Args:
            has_memory: true if system memory is free.
        """
        return {}

    def faster_section(self, section: str) -> dict[str, Any]:
        """Return keys that make a part of the model faster, and are not set yet.

        Args:
            section: name of the section in the timings, such as ``vrt/fusion1``.
        """
        return {}


def task_advice(settings: RunSettings) -> TaskAdvice:
    """Return the advice of a run's task, by default without any of its own.

    Args:
        settings: settings of the run; TASK names the task.

    Raises:
        ConfigError: if there is no such task.
    """
    task = find_task(settings.TASK)
    return task.advice(settings) if has_part(task, "advice") else TaskAdvice()
