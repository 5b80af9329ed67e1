"""What the experiments on learning from spikes measure."""

from __future__ import annotations

import numpy as np
import pytest

import learning


def test_features_by_hand() -> None:
    spikes = np.zeros((56, 1, 2), np.uint8)
    # The sharp frame of 7 source frames is at step 24.
    spikes[[20, 23, 26, 40], 0, 0] = 1
    rates = learning.rates(np.array([0, 22, 24, 56]))(spikes)
    np.testing.assert_allclose(rates[:, 0, 0], [1 / 22, 1 / 2, 2 / 32])
    # From step 23 to step 26; without a spike on one side up to the end of the exposure.
    np.testing.assert_allclose(learning.interval(spikes)[0, 0], [1 / 3, 1 / 57])
    np.testing.assert_allclose(learning.short_windows(spikes)[:, 0, 0], [1 / 4, 3 / 8, 3 / 16])


def test_known_runs_are_kept_unless_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []

    def train(_: object, given: dict[str, object], __: object) -> float:
        trained.append(given["SEED"])
        return 30.0

    monkeypatch.setattr(learning, "train", train)
    first, second, *rest = learning.NETWORKS
    known = {name: {"0": 29.0, "7": 29.5} for name in (first, *rest)} | {second: {"0": 28.0}}
    *_, found = learning.network_part(None, 300, (0, 7), None, known)
    assert trained == [7]
    assert found[second] == {"0": 28.0, "7": 30.0}
    *_, found = learning.network_part(None, 300, (0,), "without spikes", known)
    assert trained == [7, 0]
    assert (found["without spikes"]["0"], found[first]["0"]) == (30.0, 29.0)
