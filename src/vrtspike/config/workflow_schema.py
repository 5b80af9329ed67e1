"""The keys of ``config/config.yaml``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from pydantic import create_model, field_validator

from vrtspike.config.fields import (
    NonNegative,
    NormalizedPath,
    OutputPath,
    Positive,
    Section,
    operational,
)
from vrtspike.config.tasks import TASKS, find_task
from vrtspike.system.errors import ConfigError
from vrtspike.system.home import PRESET_DIR


class WorkflowSettings(Section):
    """``config/config.yaml``."""

    PRESETS: tuple[str, ...] = operational(
        "Presets that all, compare, report and ablation cover", ("light",)
    )
    PRESET_DIR: NormalizedPath = operational(
        "Folder of the presets; in the default one those of the workflow are found, too", PRESET_DIR
    )
    SWEEP_DIR: NormalizedPath = operational(
        "Folder of the sweeps; it may be absent", "config/sweeps"
    )
    RESULTS: OutputPath = operational("Folder of the results", "results")
    RUNS: OutputPath = operational("Folder of the states of training runs", "runs")
    GPUS: NonNegative | Literal["auto"] = operational(
        "GPUs per training and machine; auto: all free ones (one in a Slurm job); 0: CPU",
        "auto",
    )
    NODES: Positive = operational("Machines per training run; several: nodes of a Slurm job", 1)
    SETTINGS: dict[str, Any] = operational("Keys that override those of every preset", {})
    SET: str | tuple[str, ...] = operational(
        "The same as KEY=value, separated by spaces, or a list if values contain spaces; values "
        "are YAML, text with ': ' or ' #' in quotes",
        "",
    )
    RETRAIN: tuple[str, ...] = operational(
        "Presets and sweeps to train again if their code has changed", ()
    )
    WEIGHTS_URL: str | None = operational(
        "URL (https, file:///...) from which published weights are fetched; null: the publisher's",
        None,
    )

    @property
    def set_pieces(self) -> list[str]:
        """The pieces of SET, each KEY=value: of a text those between its spaces.

        Raises:
            ConfigError: if a piece of the text is not ``KEY=value``, or its value has only one
                quote.
        """
        if not isinstance(self.SET, str):
            return list(self.SET)
        pieces = self.SET.split()
        for piece in pieces:
            _, _, value = piece.partition("=")
            is_cut = value[:1] in ("'", '"') and value.count(value[0]) == 1
            if "=" not in piece or is_cut:
                raise ConfigError(
                    f"SET: found {piece!r} in {self.SET!r}, expected KEY=value between spaces; if "
                    'a value contains spaces, give a list, such as ["TEST.METRICS=[psnr, ssim]"]'
                )
        return pieces

    def set_pieces_with(self, later: Sequence[str]) -> list[str]:
        """Return the pieces of SET and later ones; of a key in both the later one.

        >>> WorkflowSettings(SET="SEED=1 TRAIN.EPOCHS=2").set_pieces_with(["SEED=3"])
        ['TRAIN.EPOCHS=2', 'SEED=3']
        """
        keys = {piece.partition("=")[0].strip() for piece in later}
        former = self.set_pieces
        return [piece for piece in former if piece.partition("=")[0].strip() not in keys] + [*later]

    @field_validator("PRESETS", "RETRAIN", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:  # noqa: ANN401 - raw YAML
        """Accept a text with names between spaces or commas (``--config PRESETS=demo``)."""
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


@cache
def workflow_schema() -> type[WorkflowSettings]:
    """Return the schema of ``config/config.yaml`` with the sections of all tasks.

    Raises:
        ConfigError: if a key is defined twice.
    """
    parts = dict.fromkeys(find_task(name).SETTINGS.workflow_section for name in TASKS)
    bases: Any = tuple(part for part in parts if part is not Section)
    names = Counter(name for part in (*bases, WorkflowSettings) for name in part.model_fields)
    duplicates = [name for name, count in names.items() if count > 1]
    if duplicates:
        raise ConfigError(f"config/config.yaml: two tasks define the keys {', '.join(duplicates)}")
    return create_model("WorkflowSettings", __base__=(*bases, WorkflowSettings))
