"""A graph of rules, read and drawn."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from itertools import pairwise

import pytest

from vrtspike.rule_picture import COLUMNS, RuleGraph, draw

DOT = """\
Building DAG of jobs...
digraph snakemake_dag {
    node[shape=box, style=rounded];
	0[label = "last", color = "0.32 0.6 0.85", style="rounded"];
	1[label = "first", color = "0.52 0.6 0.85", style="rounded"];
	2[label = "side", color = "0.52 0.6 0.85", style="rounded"];
	3[label = "middle", color = "0.52 0.6 0.85", style="rounded"];
	10[label = "other", color = "0.52 0.6 0.85", style="rounded"];
	1 -> 2
	1 -> 3
	3 -> 10
	1 -> 0
	2 -> 0
	10 -> 0
}
"""
SVG = "{http://www.w3.org/2000/svg}"


def drawn(graph: RuleGraph, **words: str) -> ET.Element:
    return ET.fromstring(draw(graph, words, "all <rules>"))


@dataclass(frozen=True)
class Box:
    left: int
    top: int
    right: int
    bottom: int


def boxes(picture: ET.Element) -> dict[str, Box]:
    names = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "name"]
    found = {}
    for name, rect in zip(names, picture.iter(f"{SVG}rect"), strict=True):
        x, y, width, height = (int(rect.attrib[k]) for k in ("x", "y", "width", "height"))
        found[str(name)] = Box(x, y, x + width, y + height)
    return found


def chain(length: int) -> RuleGraph:
    names = [f"r{n:02}" for n in range(length)]
    return RuleGraph({n: frozenset(names[max(i - 1, 0) : i]) for i, n in enumerate(names)})


def test_a_graph_is_read_from_what_snakemake_prints():
    assert RuleGraph.from_dot(DOT).after == {
        "first": frozenset(),
        "last": frozenset({"first", "side", "other"}),
        "middle": frozenset({"first"}),
        "other": frozenset({"middle"}),
        "side": frozenset({"first"}),
    }


def test_something_else_is_no_graph():
    with pytest.raises(ValueError, match="snakemake --rulegraph dot"):
        RuleGraph.from_dot("Error: no such target")


def test_the_source_takes_the_place_of_the_rules_that_make_it():
    graph = RuleGraph.from_dot(DOT).starting_at("frames", ["first"])
    assert graph.after == {
        "frames": frozenset(),
        "last": frozenset({"side", "other"}),
        "middle": frozenset({"frames"}),
        "other": frozenset({"middle"}),
        "side": frozenset({"frames"}),
    }


def test_arrows_lead_to_the_right_and_the_longest_way_is_straight():
    places = boxes(drawn(RuleGraph.from_dot(DOT)))
    way = [places[name] for name in ("first", "middle", "other", "last")]
    assert all(a.right < b.left for a, b in pairwise(way))
    assert len({box.top for box in way}) == 1
    assert places["side"].left == places["middle"].left
    assert places["side"].top > places["middle"].bottom


def test_of_two_rules_the_one_that_more_others_read_stays_in_the_first_lane():
    after = {"a": "", "b": "a", "c": "a", "d": "c", "e": "bc", "f": "de"}
    places = boxes(drawn(RuleGraph({name: frozenset(before) for name, before in after.items()})))
    assert places["c"].top == places["a"].top < places["b"].top
    assert places["d"].top == places["a"].top < places["e"].top


def test_every_arrow_that_says_something_is_drawn_once():
    picture = drawn(RuleGraph.from_dot(DOT))
    tips = [path for path in picture.iter(f"{SVG}path") if path.get("class") == "tip"]
    assert len(tips) == 5  # first -> last follows from others


def test_an_arrow_that_goes_far_passes_below_the_boxes_in_between():
    picture = drawn(RuleGraph.from_dot(DOT))
    places = boxes(picture)
    lines = [path.attrib["d"] for path in picture.iter(f"{SVG}path") if not path.get("class")]
    side = places["side"]
    (far,) = [
        line for line in lines if line.startswith(f"M{side.right} {(side.top + side.bottom) // 2}H")
    ]
    assert int(far.partition("H")[2].partition("c")[0]) >= places["other"].right


def test_a_long_chain_goes_on_in_the_next_row_within_the_picture():
    picture = drawn(chain(COLUMNS + 2))
    places = boxes(picture)
    first, next_row = places["r00"], places[f"r{COLUMNS:02}"]
    assert next_row.left == first.left
    assert next_row.top > first.bottom
    width, height = int(picture.attrib["width"]), int(picture.attrib["height"])
    assert picture.attrib["viewBox"] == f"0 0 {width} {height}"
    assert all(box.right < width and box.bottom < height for box in places.values())
    lines = " ".join(path.attrib["d"] for path in picture.iter(f"{SVG}path"))
    between = int(re.findall(r"V(\d+)q", lines)[0])
    assert first.bottom < between < next_row.top


def test_words_stand_below_the_name_and_are_escaped():
    picture = drawn(chain(2), r00="a < b")
    assert [text.text for text in picture.iter(f"{SVG}text")] == ["r00", "a < b", "r01"]
    title = picture.find(f"{SVG}title")
    assert title is not None
    assert title.text == "all <rules>"
