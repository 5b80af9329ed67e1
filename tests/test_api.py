"""What docs/api.md promises to programs of others."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

from vrtspike.data.raw.spikes import write_spikes


@pytest.fixture(scope="module")
def page(repository) -> str:
    return (repository / "docs/api.md").read_text(encoding="utf-8")


def test_every_promised_name_is_there_and_explained(page):
    rows = re.findall(r"^\| `(vrtspike[\w.]*)` \| ([^|]*) \|", page, re.MULTILINE)
    assert len(rows) >= 15
    for module, names in rows:
        for name in re.findall(r"`(\w+)`", names):
            thing = getattr(importlib.import_module(module), name)
            assert thing.__doc__, f"{module}.{name}"


def test_the_example_counts_every_spike(page, tmp_path, monkeypatch):
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    spikes = (np.random.default_rng(0).random((88, 360, 640)) < 0.2).astype(np.uint8)
    write_spikes("000226.dat", spikes)
    known: dict[str, np.ndarray] = {}
    exec(example, known)
    np.testing.assert_array_equal(known["spikes"], spikes)
    assert known["counts"].shape == (32, 360, 640)
    np.testing.assert_array_equal(known["counts"].sum(axis=0), spikes.sum(axis=0))
