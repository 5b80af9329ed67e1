"""Kinds of pictures of restored frames."""

from __future__ import annotations

from vrtspike.restoration.page.gallery import GALLERY, TOPS

KINDS = {kind["name"]: kind for kind in GALLERY["kinds"]}


def test_the_boundary_is_between_blurry_and_restored_and_all_others_are_beside():
    assert (GALLERY["left"], GALLERY["right"]) == ("blurry", "restored")
    beside = [name for name, kind in KINDS.items() if kind["is_beside"]]
    assert beside == ["sharp", "spikes", "error", "difference", "residual"]


def test_the_note_of_a_map_names_its_brightest_value():
    assert {name: kind["top"] for name, kind in KINDS.items() if kind["top"]} == TOPS
    for name, top in TOPS.items():
        assert f" {top} or more of 255 grey values." in KINDS[name]["note"]
