"""Values by key: merged layers, lines of keys, overrides."""

from __future__ import annotations

import pytest

from vrtspike.config.yaml_documents import (
    document_from_tree,
    overlay,
    parse_config_words,
    parse_overrides,
    parse_yaml,
)
from vrtspike.system.errors import ConfigError


@pytest.mark.parametrize(
    ("lower", "upper", "merged"),
    [
        ({"A": {"B": 1, "C": 2}}, {"A": {"B": 3}}, {"A": {"C": 2, "B": 3}}),
        ({"A": {"B": 1}}, {"A": None}, {"A": None}),
        ({"A": None}, {"A": {"B": 1}}, {"A": {"B": 1}}),
        ({"A": {"B": 1}}, {"A": {}}, {"A": {"B": 1}}),
        ({"A": None}, {"A": {}}, {"A": {}}),
        ({"A": [1, 2]}, {"A": [3]}, {"A": [3]}),
    ],
)
def test_sections_are_merged_and_other_values_replaced(lower, upper, merged) -> None:
    assert overlay(document_from_tree(lower, "a"), document_from_tree(upper, "b")).tree == merged


def test_the_latest_of_three_layers_wins_and_names_its_line() -> None:
    layers = [
        parse_yaml("A:\n  B: 1\n  C: 2\n  D: [1, 2, 3]\nE: 4\n", "base.yaml"),
        parse_yaml("# mine\nA: {B: 5, D: [6]}\n", "preset.yaml"),
        parse_overrides(["A.B=7", "F.G=8"]),
    ]
    merged = overlay(overlay(layers[0], layers[1]), layers[2])
    assert merged.tree == {"A": {"B": 7, "C": 2, "D": [6]}, "E": 4, "F": {"G": 8}}
    keys = [("A", "B"), ("A", "C"), ("A", "D"), ("A", "D", 0), ("E",), ("F", "G")]
    places = ["--set", "base.yaml:3", "preset.yaml:2", "preset.yaml:2", "base.yaml:5", "--set"]
    assert [merged.locations[key] for key in keys] == places
    assert merged == overlay(layers[0], overlay(layers[1], layers[2]))


def test_an_alias_repeats_a_section_whose_keys_have_the_lines_of_its_anchor() -> None:
    document = parse_yaml("A: &a\n  B: 1\nC: *a\nD:\n  <<: *a\n  E: 2\n", "a.yaml")
    assert document.tree == {"A": {"B": 1}, "C": {"B": 1}, "D": {"B": 1, "E": 2}}
    assert document.locations[("C", "B")] == "a.yaml:2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A: 1\nB: 2\nA: 3\n", "a.yaml: key A is given twice, at line 1 and at line 3; put"),
        ("A:\n- {B: 1}\n- B: 1\n  B: 1\n", r"key A.1.B is given twice, at line 3 and at line 4"),
        ("A: 1\nB: [\n", "a.yaml:3: not YAML: "),
        ("- A\n", "a.yaml:1: the top level must be a mapping"),
    ],
)
def test_faults_have_lines(text, message) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_yaml(text, "a.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("[1, 2.5]", [1, 2.5]),
        ("a#b c", "a#b c"),
        ("'a # b'", "a # b"),
        ('"echo a: b"', "echo a: b"),
        (" a=b ", "a=b"),
    ],
)
def test_values_of_overrides_are_yaml(text, value) -> None:
    assert parse_overrides([f"A.B={text}"]).tree == {"A": {"B": value}}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("A=x # y", "--set A=x # y: YAML ignores '# y', .*in quotes: A=\"x # y\"$"),
        ("A= # y", "YAML ignores '# y', .*in quotes: A=\"# y\"$"),
        ("A=1\nB: 2", "YAML ignores 'B: 2', expected only a value"),
        ("A=echo a: b", 'not YAML: mapping values are not .*in quotes: A="echo a: b"$'),
        ("A", "--set 'A': expected KEY=value"),
        ("A..B=1", "--set 'A..B=1': expected KEY=value"),
    ],
)
def test_nothing_of_an_override_is_ignored(override, message) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_overrides([override])


@pytest.mark.parametrize("word", ["A", "{A: 1}", "A=[1"])
def test_other_words_of_the_configuration_are_refused(word) -> None:
    with pytest.raises(ConfigError, match=r"--config .*(KEY=value|JSON mapping|not YAML)"):
        parse_config_words([word])
