"""Digests of code: what changes them, what does not, and how long they are remembered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vrtspike
from vrtspike.runs import provenance as module
from vrtspike.runs.provenance import cached_on_disk, code_digests, definition_digests

PROGRAM = '''
"""A program."""
from helper import double

def main():
    """Say it."""
    print(double(21))  # the answer
'''


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("def double(x):\n    return 2 * x\n")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def in_new_process(script: Path, question: str = "code", sources: Path | None = None) -> dict:
    """What a fresh process finds (each reads sources once), optionally in another package."""
    command = (
        "import json, sys; from pathlib import Path; from vrtspike.runs.provenance import *;"
        f"print(json.dumps(({question}_digests(Path({str(script)!r})))))"
    )
    environment = dict(os.environ)
    if sources is not None:
        environment["PYTHONPATH"] = str(sources)
    done = subprocess.run([sys.executable, "-c", command], stdout=-1, check=True, env=environment)
    return json.loads(done.stdout)


def definitions(script: Path) -> dict[str, str]:
    return in_new_process(script, "definition")


def test_names_the_program_first_and_then_what_it_imports(script):
    found = code_digests(script)
    folder = script.parent.name
    assert list(found) == [f"{folder}/program.py", f"{folder}/helper.py"]
    assert len(found[f"{folder}/program.py"]) == 12
    with pytest.raises(FileNotFoundError, match="absent"):
        code_digests(script.with_name("absent.py"))


@pytest.mark.parametrize(
    "rewritten",
    [
        PROGRAM.replace("# the answer", "# another comment"),
        PROGRAM.replace("Say it.", "Say something else."),
        PROGRAM.replace("print(double(21))", "print( double( 21 ) )"),
        "\n\n\n" + PROGRAM,
    ],
    ids=["comment", "docstring", "layout", "blank lines"],
)
def test_unchanged_by_what_does_not_run(script, rewritten):
    before = in_new_process(script)
    script.write_text(rewritten)
    assert in_new_process(script) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("program.py", "21", "22"), ("helper.py", "2 * x", "3 * x")],
    ids=["own constant", "imported constant"],
)
def test_changed_by_what_runs_and_only_that_file(script, file, old, new):
    before = in_new_process(script)
    path = script.parent / file
    path.write_text(path.read_text().replace(old, new))
    after = in_new_process(script)
    label = f"{script.parent.name}/{file}"
    assert {name for name in after if after[name] != before[name]} == {label}


def test_follows_the_package_through_packages_and_submodules(tmp_path):
    """Against a miniature package of the same name, so that every kind of import occurs."""
    package = tmp_path / "src" / "vrtspike"
    own = Path(vrtspike.__file__).parent
    for part in ("io", "system"):
        shutil.copytree(own / part, package / part)
    (package / "runs").mkdir()
    for name in ("__init__.py", "errors.py", "runs/__init__.py", "runs/provenance.py"):
        shutil.copy(own / name, package / name)
    sources = {
        "alpha/__init__.py": "from vrtspike.alpha.exported import thing\n",
        "alpha/exported.py": "thing = 1\nother = 2\n",
        "alpha/direct.py": (
            "from .sibling import a\nfrom . import cousin\nfrom ..io import files\n"
            "def go(x: Unused):\n    return a, cousin.f(), files.read_json\n"
            "from .unused import Unused\n"
        ),
        "alpha/sibling.py": "a = 1\n",
        "alpha/cousin.py": "def f():\n    import vrtspike.late\n    return vrtspike.late.b\n",
        "alpha/unused.py": "Unused = 1\n",
        "late.py": (
            "import typing\nif typing.TYPE_CHECKING:\n    import vrtspike.typed\n"
            "b = 1\nregistry = {}\nregistry['b'] = b\n"
        ),
        "typed.py": "a = 1\n",
    }
    for name, text in sources.items():
        path = package / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    entry = scripts / "entry.py"

    entry.write_text("import numpy\nfrom vrtspike.alpha import direct, unused\ndirect.go(1)\n")
    before = in_new_process(entry, sources=tmp_path / "src")
    assert set(before) == {
        "scripts/entry.py",
        "vrtspike/alpha/direct.py",
        "vrtspike/alpha/sibling.py",
        "vrtspike/alpha/cousin.py",
        "vrtspike/late.py",
        "vrtspike/io/files.py",
    }

    # What a module does when it is imported counts, and what nothing uses does not.
    late = package / "late.py"
    late.write_text(sources["late.py"] + "c = 3\n")
    assert in_new_process(entry, sources=tmp_path / "src") == before
    late.write_text(sources["late.py"].replace("['b']", "['c']"))
    after = in_new_process(entry, sources=tmp_path / "src")
    assert {name for name in after if after[name] != before[name]} == {"vrtspike/late.py"}

    entry.write_text("from vrtspike.alpha import thing\nprint(thing)\n")
    assert set(in_new_process(entry, sources=tmp_path / "src")) == {
        "scripts/entry.py",
        "vrtspike/alpha/exported.py",
    }


def test_neutral_modules_and_definitions_do_not_count(tmp_path):
    own = f"{tmp_path.name}/subject.py"
    source = (
        "from vrtspike.io import files\nfrom vrtspike.system import cli\n"
        "from vrtspike.errors import UserError\n"
        "cli.run(files.file_digest)\nraise UserError\n"
    )
    program = tmp_path / "subject.py"
    program.write_text(source)

    def files(*neutral: str) -> set[str]:
        found = definition_digests(program, neutral=neutral)
        return {name.rpartition(":")[0] for name in found}

    assert files() == files("vrtspike.io.files.file") == {own, "io/files.py"}
    assert files("vrtspike.io.files") == files("vrtspike.io.files.file_digest") == {own}


def test_what_a_decorator_does_counts(tmp_path):
    (tmp_path / "wrapping.py").write_text("def doubled(f):\n    return lambda: 2 * f()\n")
    script = tmp_path / "program.py"
    script.write_text("from wrapping import doubled\n\n@doubled\ndef f():\n    return 1\n\nf()\n")
    assert f"{tmp_path.name}/wrapping.py:doubled" in definitions(script)


EDITED = """
from functools import cache

@cache
def decorated(x=1):
    return x

class Shape:
    sides: int = 4

def twice():
    return 1

def twice():
    return 2

decorated(), Shape, twice()
"""


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("@cache\n", "", "decorated"),
        ("x=1", "x=2", "decorated"),
        ("sides: int = 4", "sides: int = 5", "Shape"),
        ("return 1", "return 3", "twice"),
        ("return 2", "return 3", "twice"),
        ("decorated(), Shape", "Shape, decorated()", "(module)"),
        ("sides: int", "sides: float", "Shape"),
    ],
)
def test_each_definition_has_a_digest_of_all_that_runs(tmp_path, old, new, changed):
    script = tmp_path / "program.py"
    script.write_text(EDITED)
    before = definitions(script)
    label = f"{tmp_path.name}/program.py"
    assert set(before) == {f"{label}:{n}" for n in ("decorated", "Shape", "twice", "(module)")}
    script.write_text(EDITED.replace(old, new))
    after = definitions(script)
    assert [name for name in before if after[name] != before[name]] == [f"{label}:{changed}"]


def test_dotted_names_in_strings_count_as_uses(tmp_path):
    """Not what names a module alone: programs ask for parts of that."""
    table = 'TABLE = {"a": "vrtspike.sst.model.Block", "b": "vrtspike.sst.grid"}\n'
    (tmp_path / "subject.py").write_text(table)
    files = code_digests(tmp_path / "subject.py")
    assert "vrtspike/sst/model.py" in files
    assert "vrtspike/sst/grid.py" not in files


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """A program beside a file that it uses, and a package."""
    for name in ("programs/run.py", "programs/helper.py", "package/part/used.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("X = 1\n")
    return tmp_path / "programs/run.py"


def ask(entry: Path, answer: str, question: str = "files") -> str:
    """As a new process would: ``answer`` is given only if nothing is remembered."""
    module._cached_sources.cache_clear()
    found: str = cached_on_disk(entry, entry.parents[1] / "package", question, lambda: answer)
    return found


def cache_file(entry: Path) -> Path:
    (file,) = entry.parent.glob("__pycache__/run.*.code.json")
    return file


def test_a_value_is_cached_as_long_as_the_sources_are_the_same(entry):
    assert ask(entry, "first") == "first"
    assert ask(entry, "second") == "first"
    os.utime(entry)
    assert ask(entry, "third") == "first"
    assert ask(entry, "fourth", "definitions") == "fourth"
    assert ask(entry, "fifth") == "first"


@pytest.mark.parametrize("name", ["programs/run.py", "programs/helper.py", "package/part/used.py"])
def test_changed_new_removed_and_renamed_sources_are_noticed(entry, name):
    path = entry.parents[1] / name
    more, other = path.with_name("more.py"), path.with_name("other.py")
    status = path.stat()
    ask(entry, "first")
    changes = [lambda: path.write_text("X = 2\n"), lambda: path.write_text("X = 1\n\n")]
    changes += [more.touch, lambda: more.rename(other), other.unlink]
    for number, change in enumerate(changes):
        change()
        # Whatever its date.
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert ask(entry, f"after {number}") == f"after {number}"


def test_the_cache_is_that_of_one_version_of_python(entry, monkeypatch):
    ask(entry, "first")
    monkeypatch.setattr(sys, "version", "3.99")
    assert ask(entry, "second") == "second"


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"sources": 1}', '{"answers": 3', "\xff"])
def test_a_damaged_cache_is_written_again(entry, damage):
    ask(entry, "first")
    file = cache_file(entry)
    whole = file.read_bytes()
    file.write_bytes(damage.encode("latin-1"))
    assert ask(entry, "first") == "first"
    assert file.read_bytes() == whole
    assert json.loads(whole)["answers"] == {"files": "first"}


def test_without_a_writable_cache_the_value_is_computed_each_time(entry):
    (entry.parent / "__pycache__").write_text("no folder")
    assert ask(entry, "first") == "first"
    assert ask(entry, "second") == "second"


def test_a_value_computed_during_an_edit_is_not_cached(entry):
    def answer() -> str:
        entry.write_text("X = 2\n")
        return "of either"

    package = entry.parents[1] / "package"
    assert cached_on_disk(entry, package, "files", answer) == "of either"
    entry.write_text("X = 1\n")
    assert ask(entry, "second") == "second"
