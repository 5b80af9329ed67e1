"""Options of programs."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.system.errors import ConfigError
from vrtspike.system.options import HelpFormatter, add_options, add_preset, add_runs


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


def test_programs_that_compare_runs_take_one_or_several():
    parser = argparse.ArgumentParser()
    add_runs(parser)
    arguments = parser.parse_args(["--run", "a", "b", "--output", "c"])
    assert arguments.runs == [Path("a"), Path("b")]


def test_the_configuration_of_a_preset_is_the_main_file_unless_others_are_given():
    parser = argparse.ArgumentParser()
    add_preset(parser)
    assert parser.parse_args(["--preset", "p"]).configfile == [Path("config/config.yaml")]
    words = ["--preset", "p", "--configfile", "a.yaml", "b.yaml", "--config", "A=1", "B=2"]
    arguments = parser.parse_args(words)
    assert arguments.configfile == [Path("a.yaml"), Path("b.yaml")]
    assert arguments.config == ["A=1", "B=2"]


def test_help_names_each_default_once():
    parser = argparse.ArgumentParser(formatter_class=HelpFormatter)
    add_preset(parser)
    parser.add_argument("--only", default="", help="names")
    parser.add_argument("--port", type=int, default=0, help="a port")
    words = " ".join(parser.format_help().split())
    assert words.count("(default:") == 2
    assert "later files win (default: config/config.yaml) --config" in words
    assert words.endswith("--only ONLY names --port PORT a port (default: 0)")
