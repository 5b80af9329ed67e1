"""The target of the bundled weights, with a small network and little data."""

from __future__ import annotations

import json

import pytest

from vrtspike.io.weights import floating_type
from vrtspike.restoration.loading import load

pytestmark = [pytest.mark.workflow, pytest.mark.endurance, pytest.mark.core]


def test_weights_are_trained_evaluated_packed_and_made_again_where_they_are_stale(finished):
    finished.write("config/presets/general.yaml", "BASE: tiny\n")
    finished.make("general")
    pack = finished.folder / "results/general/pack"
    assert load(pack, device="cpu").run.name == "general"
    assert floating_type(pack / "weights.safetensors") == "float16"
    evaluation = json.loads((pack / "evaluation.json").read_text())
    assert evaluation["preset"] == "general"
    assert not finished.why("general")
    package = finished.folder / "src/vrtspike/weights/general"
    done = finished.python("scripts/bundle_weights.py")
    assert done.returncode == 0, done.stderr
    names = {path.name: path.read_bytes() for path in pack.iterdir()}
    assert {path.name: path.read_bytes() for path in package.iterdir()} == names
    with finished.replaced("scripts/bundle_weights.py", "main()", "other()"):
        finished.replace("scripts/bundle_weights.py", "run_main(main)", "run_main(other)")
        assert finished.why("general").keys() == {"general"}
