"""Digests of code: what changes them and what does not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vrtspike
from vrtspike.provenance import CodeDigest, code_digests

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


def digests_of(source: str, folder: Path, name: str = "subject", **options) -> dict[str, str]:
    """The digests of a program with this source, by file name."""
    program = folder / f"{name}.py"
    program.write_text(source)
    return dict(code_digests(program, **options))


def in_new_process(script: Path, sources: Path | None = None) -> dict[str, str]:
    """What a fresh process finds, optionally with another copy of the package."""
    command = (
        "import json, sys; from pathlib import Path; from vrtspike.provenance import code_digests;"
        f"print(json.dumps(dict(code_digests(Path({str(script)!r})))))"
    )
    environment = dict(os.environ)
    if sources is not None:
        environment["PYTHONPATH"] = str(sources)
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout)


def test_names_the_program_first_and_then_what_it_imports(script):
    files = [digest.file for digest in code_digests(script)]
    assert files == [f"{script.parent.name}/program.py", f"{script.parent.name}/helper.py"]


def test_prints_as_file_and_digest():
    assert str(CodeDigest("vrtspike/files.py", "0123456789ab")) == "vrtspike/files.py 0123456789ab"


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
    shutil.copytree(own / "provenance", package / "provenance")
    for name in ("__init__.py", "cpus.py", "files.py", "endings.py", "errors.py", "cli.py"):
        shutil.copy(own / name, package / name)
    sources = {
        "alpha/__init__.py": "from vrtspike.alpha.exported import thing\n",
        "alpha/exported.py": "thing = 1\nother = 2\n",
        "alpha/direct.py": (
            "from .sibling import a\nfrom . import cousin\nfrom .. import files\n"
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
    before = in_new_process(entry, tmp_path / "src")
    assert set(before) == {
        "scripts/entry.py",
        "vrtspike/alpha/direct.py",
        "vrtspike/alpha/sibling.py",
        "vrtspike/alpha/cousin.py",
        "vrtspike/late.py",
        "vrtspike/files.py",
    }

    # What a module does when it is imported counts, and what nothing uses does not.
    late = package / "late.py"
    late.write_text(sources["late.py"] + "c = 3\n")
    assert in_new_process(entry, tmp_path / "src") == before
    late.write_text(sources["late.py"].replace("['b']", "['c']"))
    after = in_new_process(entry, tmp_path / "src")
    assert {name for name in after if after[name] != before[name]} == {"vrtspike/late.py"}

    entry.write_text("from vrtspike.alpha import thing\nprint(thing)\n")
    assert set(in_new_process(entry, tmp_path / "src")) == {
        "scripts/entry.py",
        "vrtspike/alpha/exported.py",
    }


def test_neutral_modules_and_definitions_do_not_count(tmp_path):
    own = f"{tmp_path.name}/subject.py"
    source = (
        "from vrtspike import cli, files\nfrom vrtspike.errors import UserError\n"
        "cli.run(files.file_digest)\nraise UserError\n"
    )
    assert set(digests_of(source, tmp_path)) == {own, "vrtspike/files.py"}
    assert set(digests_of(source, tmp_path, neutral=["vrtspike.files"])) == {own}
    assert set(digests_of(source, tmp_path, neutral=["vrtspike.files.file_digest"])) == {own}
    assert set(digests_of(source, tmp_path, neutral=["vrtspike.files.file"])) != {own}


def test_only_the_used_definitions_of_a_file_count(tmp_path):
    one = digests_of("from vrtspike.files import json_digest\njson_digest(1)\n", tmp_path)
    other = digests_of("from vrtspike.files import file_digest\nfile_digest(1)\n", tmp_path, "b")
    assert one["vrtspike/files.py"] != other["vrtspike/files.py"]


def definitions(script: Path) -> dict[str, str]:
    """In a process of its own: sources are read once in a process."""
    command = (
        "import json, sys; from pathlib import Path; from vrtspike.provenance import *;"
        f"print(json.dumps(definition_digests(Path({str(script)!r}))))"
    )
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_is_remembered_of_files_is_no_answer_about_definitions(script):
    label = script.parent.name
    files = in_new_process(script)
    assert set(definitions(script)) == {*(f"{label}/program.py:main", f"{label}/helper.py:double")}
    assert in_new_process(script) == files


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


def test_an_absent_program_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        code_digests(tmp_path / "absent.py")


def test_a_table_of_dotted_names_uses_what_they_name(tmp_path):
    """Not what names a module alone: programs ask for parts of that."""
    table = 'TABLE = {"a": "vrtspike.sst.model.Block", "b": "vrtspike.sst.grid"}\n'
    files = digests_of(table, tmp_path)
    assert "vrtspike/sst/model.py" in files
    assert "vrtspike/sst/grid.py" not in files
