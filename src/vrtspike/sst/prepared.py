"""The data of a preset: made, opened, told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrtspike.errors import ConfigError, DataError
from vrtspike.files import write_json
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.prepare import prepare
from vrtspike.sst.settings import GenerateSettings, SSTSettings
from vrtspike.sst.store import PreparedStore

if TYPE_CHECKING:
    from vrtspike.config.run_schema import RunSettings
    from vrtspike.runs.identity import RunIdentity


GENERATED = "generated.json"
"""Says that the files beside it were generated, and how."""


def sst_settings(settings: RunSettings) -> SSTSettings:
    """These settings, if they are a preset of the sea surface temperature.

    Raises:
        ConfigError: if they are of another problem.
    """
    if not isinstance(settings, SSTSettings):
        raise ConfigError(f"TASK is {settings.TASK}, expected a preset with TASK: sst")
    return settings


def globe(generate: GenerateSettings) -> Globe:
    """What is generated."""
    return Globe(years=generate.YEARS, seed=generate.SEED, anomalies=generate.ANOMALIES)


def generate(root: Path, asked: GenerateSettings) -> None:
    """Generate files where nothing stands that was not generated.

    Raises:
        DataError: if there is something else.
    """
    mark = root / GENERATED
    if root.exists() and not mark.is_file() and (not root.is_dir() or any(root.iterdir())):
        raise DataError(
            f"{root}: DATA.GENERATE would write here, and this was not generated; set DATA.ROOT "
            "to a folder of its own, or remove DATA.GENERATE to use what is there"
        )
    write_json(mark, asked.model_dump(mode="json"))
    write_example(root, globe(asked))


def prepare_preset(settings: SSTSettings, manifest: Path, tell: Callable[[str], None]) -> None:
    """Make the store of a preset, and generate the files before where that is asked for.

    Args:
        settings: of the preset.
        manifest: to write.
        tell: is told how far it is.

    Raises:
        UserError: if the files cannot be used.
    """
    data = settings.DATA
    if data.GENERATE is not None:
        tell(f"generating {data.GENERATE.YEARS} years in {data.ROOT}")
        generate(Path(data.ROOT), data.GENERATE)
    years = None if data.YEARS is None else data.YEARS.years
    store = prepare(data.ROOT, data.AREA.area, data.RESOLUTION, manifest, years)
    cells = int(store.sea.sum())
    tell(
        f"{store.layout.months} months of {cells} cells of sea, {store.grid.shape[0]} x "
        f"{store.grid.shape[1]}; training {store.years.train}, test {store.years.test}"
    )


def open_split(settings: SSTSettings, manifest: str | Path, split: str) -> ERA5SSTMonthlyDataset:
    """The samples of a split.

    Raises:
        DataError: if the data are not there, or the split is shorter than a sample.
    """
    data = settings.DATA
    return ERA5SSTMonthlyDataset(
        data.SEQ_LEN, data.OFFSET, lead=data.LEAD, split=split, store=manifest
    )


def run_statistics(run: RunIdentity) -> dict[str, Any]:
    """Where the cells of a run lie, and its climatology and deviation over all of them.

    Raises:
        DataError: if the data are not there.
    """
    store = PreparedStore(run.dataset)
    weights = store.weights()
    return {
        "dataset": Path(run.dataset).parent.name,
        "dataset_digest": store.digest,
        "area": store.area.as_json(),
        "resolution": store.grid.resolution,
        "years": store.years.as_json(),
        "sea_cells": int(store.sea.sum()),
        "climatology_k": _mean(store.climatology, weights),
        "deviation_k": _mean(store.deviation, weights),
    }


def _mean(field: Any, weights: Any) -> list[float]:  # noqa: ANN401 - arrays
    """Means over the sea, by month of the year."""
    return [float(value) for value in (np.where(weights > 0, field, 0) * weights).sum((1, 2))]
