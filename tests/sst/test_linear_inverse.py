"""The linear inverse model against oscillations and seasons whose best forecast is known."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sst.known_series import ahead, errors, lines, series
from vrtspike.sst.linear_inverse import LinearInverseModel


@pytest.mark.parametrize("chunked", [False, True])
def test_a_linear_inverse_model_finds_an_oscillation_that_cells_cannot_see(chunked):
    """Two patterns that turn into each other: alone, each cell says too little."""
    random = np.random.default_rng(3)
    turn = 0.98 * np.exp(2j * np.pi / 30)
    state, values = 0j, []
    for _ in range(2500):
        state = turn * state + 0.2 * random.normal(size=2) @ [1, 1j]
        values.append(state)
    patterns = np.array([[1.0, 0.5, 0, -1, 0.3], [0, 1, 1, 0.5, -0.7]])
    kelvin = np.array(values).view(float).reshape(-1, 2) @ patterns
    cells, months = lines(2000, 5), 6
    cells["weight"] = ("row", "column"), np.array([[0.1], [0.2], [0.3], [0.25], [0.15]])
    training = series(kelvin[:2000])
    training = training.chunk(time=500) if chunked else training
    result = errors(training, cells, series(kelvin[2000:], 2000), months)
    expected = (np.array(values)[2000:-months] * turn**months).view(float).reshape(-1, 2) @ patterns
    best = np.mean((expected - kelvin[2000 + months :]) ** 2)
    assert result["lim"] == pytest.approx(best, rel=0.03)
    assert result["lim"] < 0.7 * result["damped"]


@pytest.mark.parametrize("months", [1, 4])
def test_matrices_of_the_calendar_months_are_found_from_the_largest_components(months):
    """Five patterns that each calendar month turns in its own way, without noise."""
    random = np.random.default_rng(4)
    turns = np.linalg.qr(random.normal(size=(12, 5, 5)))[0]
    states = [random.normal(size=5)]
    for month in range(120 + months):
        states.append(states[-1] @ turns[month % 12])
    kelvin = np.array(states) @ random.normal(size=(5, 30))
    expected = kelvin[119 + months]
    training = series(kelvin[:120].copy(), 4)
    # It follows a month of the start's calendar month; no pair with it counts: it is no 0.
    training[36] = np.nan
    weights = lines(1, 30)["weight"].copy(data=random.uniform(0.5, 1, (30, 1)))
    model = LinearInverseModel(training, weights, ahead(months))
    result = model.forecast(training[-1], 4 + 119)
    np.testing.assert_allclose(result[0, :, 0], expected, atol=1e-5)
