"""The script that makes faults, on a package of two functions of which one is tested."""

from __future__ import annotations

import pytest

from mutations import main

MODULE = '''"""Two functions."""


def area(width: int, height: int) -> int:
    return width * height


def mirrored(place: int) -> int:
    return -place
'''
TEST = """from vrtspike.shapes.area import area


def test_area():
    assert area(2, 3) == 6
"""


@pytest.mark.endurance
def test_a_fault_in_tested_code_is_noticed_and_another_is_listed(tmp_path, capsys):
    for name, text in (
        ("src/vrtspike/__init__.py", ""),
        ("src/vrtspike/shapes/area.py", MODULE),
        ("tests/shapes/test_area.py", TEST),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    main(["--package", "shapes", "--seed", "1", "--root", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "unnoticed: src/vrtspike/shapes/area.py:9: -place -> (place)",
        "noticed: 1 of 2",
    ]
    assert (tmp_path / "src/vrtspike/shapes/area.py").read_text() == MODULE
