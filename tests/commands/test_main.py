"""The command line `vrtspike`: help, completion, exit status and slow imports."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import vrtspike
from vrtspike.commands.main import COMMANDS, make_parser

HEAVY = ("numpy", "torch", "zarr", "pandas", "matplotlib", "snakemake", "pydantic", "cv2", "scipy")


def vrtspike_command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vrtspike", *words], capture_output=True, text=True, check=False
    )


def test_help_names_every_command():
    shown = vrtspike_command("--help").stdout
    for name in COMMANDS:
        # After the longest name argparse begins a new line.
        assert re.search(rf"^    {name}\s+[A-Z][a-z]+ ", shown, re.MULTILINE)


def test_the_version_is_that_of_the_package():
    assert vrtspike_command("--version").stdout.split() == ["vrtspike", vrtspike.__version__]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ([], "a command is missing"),
        (["restor", "results"], "no command 'restor'; did you mean restore?"),
        (["qqq"], "no command 'qqq'"),
    ],
)
def test_without_a_known_command_all_are_shown(words, fault):
    answer = vrtspike_command(*words)
    assert answer.returncode == 2
    assert answer.stderr.splitlines()[-1] == f"vrtspike: error: {fault}"
    for name in COMMANDS:
        assert re.search(rf"^    {name}\s", answer.stderr, re.MULTILINE)


def completions(line: str) -> list[str]:
    """The words that bash is offered at the end of a line."""
    environment = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    answer = subprocess.run(
        ["bash", "-c", '"$0" -m vrtspike 8>&1 9>/dev/null', sys.executable],
        env={**os.environ, **environment, "_ARGCOMPLETE_IFS": "\n"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [word.strip() for word in answer.stdout.split()]


def test_a_shell_completes_commands_and_options():
    assert completions("vrtspike re") == ["restore"]
    assert {"pack", "why", "doctor"} <= set(completions("vrtspike "))
    assert completions("vrtspike restore run frames --side") == ["--side-by-side"]


def test_a_package_that_cannot_be_imported_is_an_error_of_one_line(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: no such file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer = vrtspike_command("doctor")
    assert answer.returncode == 2
    message = re.escape("is installed, but cannot be imported (libtorch.so: no such file)")
    cure = "pip install --force-reinstall --no-deps torch=="
    assert re.match(f"error: the package torch [^ ]+ {message}; .*{cure}[^ ]+$", answer.stderr)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "a.dat", "--steps", "0"], "found 0, expected 1 or more"),
        (["advise", "--gpu", "A100", "--gpus", "0"], "found 0, expected 1 or more"),
        (["advise", "--hours", "nan"], "found nan, expected a number above 0"),
        (
            ["restore", "run", "in", "-o", "out", "--sensor", "0", "8"],
            "found 0, expected 1 or more",
        ),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(words, message, capsys):
    with pytest.raises(SystemExit):
        make_parser().parse_args(words)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("place", [f"{__file__}/out.onnx", "/dev/null/out.onnx", "/proc/out.onnx"])
@pytest.mark.parametrize(
    "words",
    [["restore", "run", "in"], ["export", "run"], ["pack", "run"], ["show", "a.dat"]],
    ids=lambda words: words[0],
)
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(words, place, capsys):
    with pytest.raises(SystemExit):
        make_parser().parse_args([*words, "-o", place])
    assert f"--output: {place}: cannot be written there" in capsys.readouterr().err


def test_help_of_commands_imports_nothing_heavy():
    # Imports are counted, because their time depends on the machine.
    code = f"""
import sys
from vrtspike.commands.main import make_parser
make_parser().format_help()
print(*[heavy for heavy in {HEAVY!r} if heavy in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    "words",
    [
        *(["analyze", "no/run"], ["compare", "no/run"], ["pack", "no/run", "-o", "out"]),
        *(["export", "no/run/x", "-o", "a.onnx"], ["restore", "no/run/x", "in", "-o", "out"]),
        ["restore", "no/run", "in", "-o", "out"],  # may be a model of the hub
    ],
    ids=" ".join,
)
def test_a_missing_run_is_refused_before_slow_imports(words):
    code = f"""
import sys
for heavy in {set(HEAVY) - {"pydantic"}!r}:
    sys.modules[heavy] = None
from vrtspike.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert re.match("error: no/run.*: no such (file|folder).*[;,] expected", done.stderr)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_describes_every_option(name):
    parser = make_parser()._subparsers._group_actions[0].choices[name]
    assert parser.description
    for action in parser._actions:
        assert action.help, action.dest


def test_another_pipe_that_breaks_is_a_defect():
    program = (
        "from vrtspike.system.program import run_main\n"
        "def main():\n raise BrokenPipeError(32, 'x')\nrun_main(main)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ended.returncode == 1
    assert b"Traceback" in ended.stderr
