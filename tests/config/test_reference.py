"""The JSON schema of presets; ``make check`` compares it and the pages with those committed."""

from __future__ import annotations

import json

import jsonschema
import pytest
from ruamel.yaml import YAML

from vrtspike.config.reference import preset_json_schema


def test_the_schema_accepts_shipped_presets_and_refuses_typing_errors(repository):
    schema = json.loads(preset_json_schema())
    presets = {path.stem: path for path in (repository / "config/presets").glob("*.yaml")}
    assert "light" in presets
    for path in presets.values():
        jsonschema.validate(YAML(typ="safe").load(path), schema)
    with pytest.raises(jsonschema.ValidationError, match="BATCHSIZE"):
        jsonschema.validate({"TRAIN": {"BATCHSIZE": 1}}, schema)
