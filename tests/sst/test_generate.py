"""The generated globe is what it says, part by part."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.sst.generate import (
    ANOMALY_MEMORY,
    DECAY,
    FREEZING_K,
    PERIOD,
    TREND_K,
    WEATHER_K,
    Globe,
)

LONG = Globe(years=150, step=15.0)


def by_month(field: np.ndarray) -> np.ndarray:
    """(N, h, w) to (years, 12, h, w)."""
    return field.reshape(-1, 12, *field.shape[1:])


def test_it_has_seasons_and_warms():
    fields = by_month(LONG.expectation()).mean(axis=3)
    season = fields.mean(axis=0)
    for hemisphere, warmest, coldest in ((LONG.latitudes > 20, 8, 2), (LONG.latitudes < -20, 2, 8)):
        months = season[:, hemisphere].mean(1)
        assert (months.argmax(), months.argmin()) == (warmest, coldest)
    tropics, poles = np.abs(LONG.latitudes) < 5, np.abs(LONG.latitudes) > 50
    assert season[:, tropics].mean() > season[:, poles].mean() + 10
    slope = np.polyfit(np.arange(150), fields.mean(axis=1), 1)[0]
    assert slope == pytest.approx(TREND_K * np.cos(np.deg2rad(LONG.latitudes)), abs=2e-3)


def test_it_freezes_where_it_would_be_colder():
    globe = Globe(years=3, step=5.0)
    free, kelvin, ice = globe.expectation(), globe.kelvin(), globe.ice()
    frozen = (free < FREEZING_K) & ~globe.land()
    assert 0.005 < frozen.mean() < 0.2
    assert (kelvin[frozen] == np.float32(FREEZING_K)).all()
    assert (ice[frozen] >= np.float32(0.15)).all()
    assert (ice[~frozen & ~globe.land()] == 0).all()
    assert np.abs(globe.latitudes[frozen.any(axis=(0, 2))]).min() > 45


def test_the_best_forecast_is_as_good_as_theory_says():
    """Errors of the expectation: what chance has added since, and nothing of what was known."""
    truth = LONG.expectation()
    lat, lon = np.meshgrid(LONG.latitudes, LONG.longitudes, indexing="ij")
    # Patterns from their definition: a core at the equator and waves far from it.
    patterns = []
    for center, phase in ((215, 0), (160, 1.5)):
        core = np.exp(-((lat / 14) ** 2) - ((lon - center) / 45) ** 2)
        waves = np.sin(2 * np.deg2rad(lat)) * np.cos(2 * np.deg2rad(lon) + phase)
        patterns.append(0.9 * (core + 0.8 * waves))
    strength = patterns[0] ** 2 + patterns[1] ** 2
    for ahead in (1, 3, 6):
        error = (LONG.expectation(ahead)[:-ahead] - truth[ahead:]) ** 2
        swing = strength * (1 - np.exp(-2 * ahead / DECAY))
        expected = swing + WEATHER_K**2 * (1 - ANOMALY_MEMORY ** (2 * ahead))
        assert error.mean() == pytest.approx(expected.mean(), rel=0.05)
        # Each of its errors is new: nothing of the month before says it.
        here = LONG.expectation(ahead)[:-ahead] - truth[ahead:]
        anomalies = truth[:-ahead] - by_month(truth).mean(axis=0)[np.arange(len(here)) % 12]
        assert abs(np.corrcoef(here.ravel(), anomalies.ravel())[0, 1]) < 0.03


def test_the_oscillation_turns_and_decays():
    """Its autocorrelation, where only it and a little weather are."""
    row, column = (
        int(np.abs(a - b).argmin()) for a, b in ((LONG.latitudes, 0), (LONG.longitudes, 215))
    )
    series = LONG.expectation()[:, row, column]
    series = series - np.polyval(
        np.polyfit(np.arange(len(series)), series, 1), np.arange(len(series))
    )
    for lag in (int(PERIOD / 2), int(PERIOD)):
        result = np.corrcoef(series[:-lag], series[lag:])[0, 1]
        expected = np.exp(-lag / DECAY) * np.cos(2 * np.pi * lag / PERIOD)
        assert result == pytest.approx(expected, abs=0.15)


def test_without_anomalies_only_weather_is_left():
    globe = Globe(years=60, step=15.0, anomalies=False)
    fields = by_month(globe.expectation())
    sea = (fields - fields.mean(axis=0)).reshape(720, -1)
    assert sea.std() == pytest.approx(WEATHER_K * np.sqrt(59 / 60), rel=0.02)
    # Nothing of one month is left in the next.
    assert abs(np.mean(sea[1:] * sea[:-1])) < 0.05 * sea.var()
