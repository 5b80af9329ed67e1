"""Digests of code: what changes them, what does not, and how they are cached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vrtspike.runs import provenance
from vrtspike.runs.provenance import code_digests

PROGRAM = '''
"""A program."""
from helper import double

def main():
    """Say it."""
    print(double(21))  # the answer
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
    ),
    "src/vrtspike/late.py": 'NAMES = {"a": "vrtspike.network.Net", "b": "vrtspike.alpha.unused"}\n',
    "src/vrtspike/network.py": "class Net: ...\n",
    "src/vrtspike/problem.py": (
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
    monkeypatch.setattr(provenance, "_SOURCES", tmp_path / "src")
    monkeypatch.setattr(provenance, "_CACHE", tmp_path / "cache.json")
    provenance._cached_summaries.cache_clear()
    yield tmp_path
    provenance._cached_summaries.cache_clear()


def digests(folder: Path, *uses: str, neutral: tuple[str, ...] = ()) -> dict[str, str]:
    return code_digests(folder / "scripts/program.py", uses=uses, neutral=neutral)


def edit(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_names_the_program_first_and_then_what_it_imports(folder):
    found = digests(folder)
    assert list(found) == ["scripts/program.py", "scripts/helper.py"]
    assert {len(digest) for digest in found.values()} == {12}
    with pytest.raises(FileNotFoundError, match="absent"):
        code_digests(folder / "scripts/absent.py")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# the answer", "# another comment"),
        ("Say it.", "Say something else."),
        ("A program.", "The program."),
        ("print(double(21))", "print( double( 21 ) )"),
        ("def main", "\n\ndef main"),
    ],
)
def test_unchanged_by_what_does_not_run(folder, old, new):
    before = digests(folder)
    edit(folder, "scripts/program.py", old, new)
    assert digests(folder) == before


@pytest.mark.parametrize(
    ("file", "old", "new"), [("program", "21", "22"), ("helper", "2 * x", "3 * x")]
)
def test_changed_by_what_runs_and_only_that_file(folder, file, old, new):
    before = digests(folder)
    edit(folder, f"scripts/{file}.py", old, new)
    after = digests(folder)
    assert {name for name in after if after[name] != before[name]} == {f"scripts/{file}.py"}


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


def test_of_a_problem_only_what_its_function_uses_counts(folder):
    problem = "vrtspike/problem.py"
    before = digests(folder, "vrtspike.problem.evaluate")
    parts = {name for name in before if name.startswith("vrtspike/")}
    assert parts == {problem, "vrtspike/alpha/exported.py", "vrtspike/alpha/sibling.py"}
    edit(folder, "src/vrtspike/problem.py", "return unused", "return [unused]")
    assert digests(folder, "vrtspike.problem.evaluate") == before
    for old, new in (("LIMIT = 3", "LIMIT = 4"), ("thing + a", "thing - a"), ("print(1)", "1")):
        edit(folder, "src/vrtspike/problem.py", old, new)
        after = digests(folder, "vrtspike.problem.evaluate")
        assert {name for name in after if after[name] != before[name]} == {problem}
        before = after
    both = digests(folder, "vrtspike.problem.evaluate", "vrtspike.problem.build")
    assert "vrtspike/alpha/unused.py" in both
    assert both[problem] != before[problem]


def test_summaries_of_files_are_cached_as_long_as_their_contents_are_the_same(folder, monkeypatch):
    def in_new_process() -> dict[str, str]:
        provenance._cached_summaries.cache_clear()
        return digests(folder)

    before = digests(folder)
    with monkeypatch.context() as patched:
        patched.setattr(provenance, "_summary", lambda *arguments: pytest.fail("read again"))
        assert in_new_process() == before
    edit(folder, "scripts/helper.py", "2 * x", "3 * x")
    assert in_new_process()["scripts/helper.py"] != before["scripts/helper.py"]
    edit(folder, "scripts/helper.py", "3 * x", "2 * x")
    whole = (folder / "cache.json").read_text()
    for damage in ("", "{}", "[]", whole[:-9], "\xff"):
        (folder / "cache.json").write_bytes(damage.encode("latin-1"))
        assert in_new_process() == before
        assert json.loads((folder / "cache.json").read_text()).keys() == json.loads(whole).keys()
    monkeypatch.setattr(provenance, "_CACHE", folder / "scripts/helper.py/cache.json")
    assert in_new_process() == before
