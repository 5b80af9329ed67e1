"""Names in the data of the page against those that its scripts read."""

from __future__ import annotations

import re
import typing

import pytest

from vrtspike.reporting.offline_page import asset
from vrtspike.reporting.page_data import PictureFacts
from vrtspike.restoration.page.page_data import RestoredData, RestoredWords
from vrtspike.restoration.page.writing import SCRIPTS

PAGE_SCRIPTS = ("dom.js", "viewer.js", "gallery.js", "restored.js")
"""Scripts that read data of this page only where it has them; others also serve other pages."""


def names_of(kind: object) -> set[str]:
    """Names in a type of JSON values, at any depth."""
    names: set[str] = set()
    if typing.is_typeddict(kind):
        for name, value in typing.get_type_hints(kind).items():
            names |= {name, *names_of(value)}
    for part in typing.get_args(kind):
        names |= names_of(part)
    return names


def is_read(name: str, script: str) -> bool:
    """Whether a script reads a name of an object: by a dot or by destructuring."""
    return re.search(rf"\.{name}\b|[{{,]\s*{name}\s*[,:}}]", script) is not None


def test_every_name_in_the_data_is_read_by_a_script():
    script = "\n".join(map(asset, SCRIPTS))
    names = names_of(RestoredData)
    assert {"runs", "doubtful", "megabytes", "is_beside", "no_metrics"} <= names
    assert {name for name in names if not is_read(name, script)} == set()


@pytest.mark.parametrize(
    ("place", "kind"),
    [("report", RestoredData), ("report.words", RestoredWords), ("report.pictures", PictureFacts)],
)
def test_every_name_that_the_scripts_read_is_in_the_data(place, kind):
    script = "\n".join(map(asset, PAGE_SCRIPTS))
    read = set(re.findall(rf"\b{re.escape(place)}\.(\w+)", script))
    assert len(read) >= 2
    assert read <= typing.get_type_hints(kind).keys()
