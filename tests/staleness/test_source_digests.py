"""Digests of code: what changes them, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.staleness import source_digests
from vrtspike.staleness.source_digests import code_digests

PROGRAM = '''
"""A program."""
from helper import double

def main():
    """Say it."""
    print(double(21))  # the answer
    print(f"{'1'!r:{2}}{{}}")
'''
FILES = {
    "scripts/program.py": PROGRAM,
    "scripts/helper.py": "def double(x):\n    return 2 * x\n",
    "src/vrtspike/alpha/__init__.py": "from vrtspike.alpha.exported import thing\n",
    "src/vrtspike/alpha/exported.py": "thing = 1\n",
    "src/vrtspike/alpha/direct.py": (
        "from .sibling import a\nfrom . import cousin\nfrom ..beta import files\n"
    ),
    "src/vrtspike/alpha/sibling.py": "a = 1\n",
    "src/vrtspike/alpha/cousin.py": "def f():\n    import vrtspike.late\n",
    "src/vrtspike/alpha/typed.py": "",
    "src/vrtspike/alpha/unused.py": "",
    "src/vrtspike/beta/files.py": (
        "import typing\nif typing.TYPE_CHECKING:\n    from vrtspike.alpha import typed\n"
        "else:\n    RUNTIME = 1\nif not typing.TYPE_CHECKING:\n    LATER = 1\n"
    ),
    "src/vrtspike/late.py": 'NAMES = {"a": "vrtspike.network.Net", "b": "vrtspike.alpha.unused"}\n',
    "src/vrtspike/network.py": "class Net: ...\n",
    "src/vrtspike/task.py": (
        "from vrtspike.alpha import unused\nfrom vrtspike.alpha.sibling import a\n"
        "LIMIT = 3\n"
        "def build():\n    return unused\n"
        "def evaluate():\n    return helper() < LIMIT\n"
        "def helper():\n    from vrtspike.alpha import exported\n    return exported.thing + a\n"
        "print(1)\n"
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A program and a miniature package, so that every kind of import occurs."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(source_digests, "SOURCES", tmp_path / "src")
    return tmp_path


def digests(folder: Path, *uses: str, neutral: tuple[str, ...] = ()) -> dict[str, str]:
    return code_digests(folder / "scripts/program.py", dynamic_uses=uses, ignored_modules=neutral)


def edit(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_names_the_program_first_and_then_what_it_imports(folder):
    result = digests(folder)
    assert list(result) == ["scripts/program.py", "scripts/helper.py"]
    assert {len(digest) for digest in result.values()} == {12}
    # The same in every Python, whose own texts of f-strings and functions differ.
    assert result["scripts/program.py"] == "19bcdaec4296"
    with pytest.raises(FileNotFoundError, match="absent"):
        code_digests(folder / "scripts/absent.py")


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("program", "# the answer", "# another comment", False),
        ("program", "Say it.", "Say something else.", False),
        ("program", "A program.", "The program.", False),
        ("program", "print(double(21))", "print( double( 21 ) )", False),
        ("program", "def main", "\n\ndef main", False),
        ("program", "21", "22", True),
        ("helper", "2 * x", "3 * x", True),
    ],
)
def test_only_what_runs_changes_the_digest_of_its_file(folder, file, old, new, changed):
    before = digests(folder)
    edit(folder, f"scripts/{file}.py", old, new)
    after = digests(folder)
    result = {name for name in after if after[name] != before[name]}
    assert result == ({f"scripts/{file}.py"} if changed else set())


def test_follows_every_kind_of_import(folder):
    def imported(text: str, *neutral: str) -> set[str]:
        (folder / "scripts/program.py").write_text(text)
        return {
            name.removeprefix("vrtspike/").removesuffix(".py")
            for name in digests(folder, neutral=neutral)
        }

    program = "import numpy\nfrom vrtspike.alpha import direct\nimport vrtspike.alpha.direct\n"
    files = {"alpha/direct", "alpha/sibling", "alpha/cousin", "beta/files", "late", "network"}
    assert imported(program) == {"scripts/program", *files}
    assert imported("from vrtspike.alpha import thing\n") == {
        *("scripts/program", "alpha/__init__", "alpha/exported")
    }
    # A package is neutral with its modules; a name that only begins like a module is another one.
    assert imported(program, "vrtspike.alpha") == {"scripts/program"}
    assert imported(program, "vrtspike.lat", "vrtspike.beta") == {
        "scripts/program",
        *(files - {"beta/files"}),
    }


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("alpha import typed", "alpha import unused", False),
        ("RUNTIME = 1", "RUNTIME = 2", True),
        ("LATER = 1", "LATER = 2", True),
    ],
)
def test_only_imports_for_type_checkers_are_left_out(folder, old, new, changed):
    (folder / "scripts/program.py").write_text("from vrtspike.alpha import direct\n")
    before = digests(folder)
    edit(folder, "src/vrtspike/beta/files.py", old, new)
    assert (digests(folder) != before) == changed


def test_only_the_definitions_that_a_function_of_a_task_uses_count(folder):
    task = "vrtspike/task.py"
    before = digests(folder, "vrtspike.task.evaluate")
    parts = {name for name in before if name.startswith("vrtspike/")}
    assert parts == {task, "vrtspike/alpha/exported.py", "vrtspike/alpha/sibling.py"}
    edit(folder, "src/vrtspike/task.py", "return unused", "return [unused]")
    assert digests(folder, "vrtspike.task.evaluate") == before
    for old, new in (("LIMIT = 3", "LIMIT = 4"), ("thing + a", "thing - a"), ("print(1)", "1")):
        edit(folder, "src/vrtspike/task.py", old, new)
        after = digests(folder, "vrtspike.task.evaluate")
        assert {name for name in after if after[name] != before[name]} == {task}
        before = after
    both = digests(folder, "vrtspike.task.evaluate", "vrtspike.task.build")
    assert "vrtspike/alpha/unused.py" in both
    assert both[task] != before[task]
