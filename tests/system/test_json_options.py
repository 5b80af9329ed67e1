"""Options as one model in JSON."""

from __future__ import annotations

import argparse

import pytest

from vrtspike.settings.stores import StoreOptions
from vrtspike.system.errors import ConfigError
from vrtspike.system.json_options import add_options


def test_options_are_a_model_as_json(capsys):
    parser = argparse.ArgumentParser()
    add_options(parser, StoreOptions, "options of the stores")
    options = StoreOptions(bins=8, context=4)
    assert parser.parse_args(["--options", options.model_dump_json()]).options == options
    assert "with the entries bins, context" in " ".join(parser.format_help().split())
    with pytest.raises(SystemExit):
        parser.parse_args([])
    assert "required: --options" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"bins": 0}', "bins: Input should be greater than or equal to 1, found 0"),
        ('{"bins": 8, "contexts": 4}', "contexts: Extra inputs are not permitted, found 4"),
        ("{}", "bins: Field required"),
        ("bins=8", "JSON: Invalid JSON"),
    ],
)
def test_options_that_are_wrong_are_named(text, fault):
    parser = argparse.ArgumentParser()
    add_options(parser, StoreOptions, "options of the stores")
    with pytest.raises(ConfigError) as caught:
        parser.parse_args(["--options", text])
    assert fault in str(caught.value)
    assert "Expected entries: bins, context." in str(caught.value)
