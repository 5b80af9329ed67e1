"""What the training processes of a machine are started with."""

from __future__ import annotations

import pytest

from vrtspike.cluster import torchrun
from vrtspike.cluster.gpus import Devices
from vrtspike.cluster.torchrun import training_environment


@pytest.mark.parametrize(
    ("given", "ranks", "expected"),
    [
        (None, 1, "12"),
        (None, 5, "2"),
        (None, 24, "1"),
        ("8", 2, "4"),
        ("8", 1, "8"),
        # More than there are would fight for them.
        ("1024", 3, "4"),
        ("", 1, "12"),
    ],
)
def test_threads_are_divided_among_the_processes(monkeypatch, given, ranks, expected):
    # The machine of the tests may have too few to tell a quotient from 1.
    monkeypatch.setattr(torchrun, "available_cpus", lambda: 12)
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert training_environment(Devices(), ranks)["OMP_NUM_THREADS"] == expected
