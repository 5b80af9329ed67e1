"""The contents of the pictures of an evaluation: lines and maps against its values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import cv2
import numpy as np
import pandas as pd
import pytest
import xarray
from matplotlib.figure import Figure

from vrtspike.sst import figures
from vrtspike.sst.evaluate import ForecastEvaluation
from vrtspike.sst.figures import CAPTIONS, ERROR_MAPS, LEADS, draw_evaluation
from vrtspike.sst.grid import Area
from vrtspike.sst.scores import FORECAST_SYSTEMS, MODEL

MONTHS = [1, 2, 3, 4, 5]
AREA = Area("Pacific", lon=[120, -80], lat=[-40, 40])
BEST = ["persistence", "persistence", "climatology", "climatology", "trend"]


@pytest.fixture
def made() -> ForecastEvaluation:
    """Five leads of random scores; no index, as the region lacks a part of its box."""
    random = np.random.default_rng(5)
    coordinates = {"system": list(FORECAST_SYSTEMS), "lead": MONTHS}
    shape = (len(FORECAST_SYSTEMS), len(MONTHS))

    def table(values: np.ndarray) -> xarray.DataArray:
        return xarray.DataArray(values, coordinates, ("system", "lead"))

    rmse = random.uniform(0.2, 1, shape)
    scores = {
        "rmse_k": table(rmse),
        "rmse_k_low": table(rmse - 0.1),
        "rmse_k_high": table(rmse + 0.2),
        "acc_detrended": table(random.uniform(0, 1, shape)),
        "nino34": table(np.full(shape, np.nan)),
    }
    errors = random.uniform(0, 1, (*shape, 4, 8))
    errors[..., 0, 0] = np.nan
    cells = xarray.DataArray(errors, coordinates, ("system", "lead", "row", "column"))
    store = SimpleNamespace(grid=SimpleNamespace(area=AREA))
    return ForecastEvaluation(
        dataset=SimpleNamespace(store=store),
        means=xarray.Dataset(),
        table=xarray.Dataset(scores),
        verdicts=pd.DataFrame({"baseline": BEST}, index=MONTHS),
        errors=cells,
        masked=0.0,
        model_seconds=1.0,
    )


@pytest.fixture
def drawn(made, tmp_path, monkeypatch) -> dict[str, Figure]:
    """The drawn figures by the names of their files."""
    kept: dict[str, Figure] = {}
    draw = figures.drawn_figure

    @contextmanager
    def keeping(path, *size, **options) -> Iterator[Figure]:
        with draw(path, *size, **options) as figure:
            kept[path.name] = figure
            yield figure

    monkeypatch.setattr(figures, "drawn_figure", keeping)
    draw_evaluation(tmp_path, made, "a title")
    return kept


def test_every_picture_has_a_caption_and_can_be_read(drawn, tmp_path):
    assert drawn.keys() == CAPTIONS.keys()
    assert {path.name for path in tmp_path.iterdir()} == CAPTIONS.keys()
    for name, figure in drawn.items():
        assert cv2.imread(str(tmp_path / name)) is not None
        assert figure.get_suptitle() == "a title"


def test_lines_are_the_scores_of_all_systems_by_lead(drawn, made):
    plots = drawn[LEADS].axes
    # Without a value there is no plot of the index.
    assert [plot.get_ylabel() for plot in plots] == ["RMSE in kelvin", "ACC about the trend"]
    for plot, name in zip(plots, ("rmse_k", "acc_detrended"), strict=True):
        assert len(plot.lines) == len(FORECAST_SYSTEMS)
        for line, system in zip(plot.lines, FORECAST_SYSTEMS, strict=True):
            months, values = line.get_data()
            assert list(months) == MONTHS
            np.testing.assert_array_equal(values, made.table[name].sel(system=system))
    (legend,) = drawn[LEADS].legends
    assert [text.get_text() for text in legend.get_texts()] == list(FORECAST_SYSTEMS.values())


def test_the_band_is_the_interval_of_the_models_rmse(drawn, made):
    (band,) = drawn[LEADS].axes[0].collections
    (outline,) = (path.vertices for path in band.get_paths())
    for month in MONTHS:
        edges = outline[outline[:, 0] == month, 1]
        table = made.table.sel(system=MODEL, lead=month)
        assert edges.min() == pytest.approx(float(table["rmse_k_low"]))
        assert edges.max() == pytest.approx(float(table["rmse_k_high"]))


def test_maps_are_the_errors_of_the_model_and_the_best_baseline(drawn, made):
    *maps, bar = drawn[ERROR_MAPS].axes
    # The first, the middle and the last lead.
    pairs = [(lead, system) for lead in (1, 3, 5) for system in (MODEL, BEST[lead - 1])]
    assert len(maps) == len(pairs)
    shown = [system for system in FORECAST_SYSTEMS if system == MODEL or system in BEST]
    limit = np.nanquantile(made.errors.sel(system=shown), 0.99)
    for plot, (lead, system) in zip(maps, pairs, strict=True):
        (image,) = plot.images
        expected = made.errors.sel(lead=lead, system=system).values
        np.testing.assert_array_equal(np.asarray(image.get_array().filled(np.nan)), expected)
        assert image.get_extent() == [120, 280, -40, 40]
        assert image.get_clim() == pytest.approx((0, limit))
        assert plot.get_title() == f"{FORECAST_SYSTEMS[system]}, {lead} ahead"
    assert bar.get_ylabel() == "RMSE in kelvin"
