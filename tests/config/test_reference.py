"""The generated reference follows the schema."""

from __future__ import annotations

import json

import jsonschema
import pytest
from ruamel.yaml import YAML

from vrtspike.config.reference import chinese, preset_json_schema, reference_page


def test_the_committed_reference_is_current(repository):
    assert (repository / "config/README.md").read_text() == reference_page()
    assert (repository / "docs/zh/configuration.md").read_text() == reference_page(chinese)
    assert (repository / "config/schema.json").read_text() == preset_json_schema()


def test_the_schema_accepts_shipped_presets_and_refuses_typing_errors(repository):
    schema = json.loads(preset_json_schema())
    for path in (repository / "config/presets").glob("*.yaml"):
        jsonschema.validate(YAML(typ="safe").load(path), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"TRAIN": {"BATCHSIZE": 1}}, schema)
