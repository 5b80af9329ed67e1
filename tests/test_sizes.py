"""The size of the project: who lets it grow decides so here."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

LINES = {"src": 20_500, "tests": 24_000, "benchmarks": 1_310}
"""At most so many lines of Python, without blanks, comments and docstrings."""
FILES = 237
"""At most so many Python files of ``src``."""
SERVING, SERVING_LINES = ("runs", "cluster", "workflow"), 2_500
"""The packages that serve the workflow, and at most so many lines of theirs together."""
PLUGIN_LINES = 150
"""At most so many lines of the Slurm executor, which adds to Snakemake's own."""
WORDS = 30_000
"""At most so many of all pages, both languages together."""


@pytest.fixture(scope="module")
def tracked(repository) -> list[Path]:
    """What a clone has; skipped where the project is no clone."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("no Git repository: which files belong to the project is not known")
    paths = [repository / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())) as docstring, *_]:
                    lines |= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return lines


def code_lines(source: str) -> int:
    documentation = docstring_lines(ast.parse(source))
    return sum(
        1
        for number, line in enumerate(source.splitlines(), 1)
        if number not in documentation and line.strip() and not line.strip().startswith("#")
    )


def test_lines_of_code_are_what_runs():
    source = '"""What\nit is."""\n\n# why\ndef f():\n    "That."\n    return """a\nb"""\n'
    assert code_lines(source) == 3


@pytest.mark.parametrize("folder", LINES)
def test_lines_of_code(repository, tracked, folder):
    files = [path for path in tracked if path.is_relative_to(repository / folder)]
    lines = sum(code_lines(path.read_text()) for path in files if path.suffix == ".py")
    assert 0 < lines <= LINES[folder]


def test_lines_of_what_serves_the_workflow(repository, tracked):
    folders = [repository / "src/vrtspike" / name for name in SERVING]
    files = [path for path in tracked if any(path.is_relative_to(each) for each in folders)]
    lines = sum(code_lines(path.read_text()) for path in files if path.suffix == ".py")
    assert 0 < lines <= SERVING_LINES


def test_lines_of_the_slurm_executor(repository):
    plugin = repository / "src/snakemake_executor_plugin_slurm_vrtspike"
    lines = sum(code_lines(path.read_text()) for path in plugin.rglob("*.py"))
    assert 0 < lines <= PLUGIN_LINES


def test_files_of_the_package(repository, tracked):
    files = [path for path in tracked if path.is_relative_to(repository / "src")]
    assert 0 < sum(path.suffix == ".py" for path in files) <= FILES


def test_words_of_the_pages(tracked):
    words = sum(len(path.read_text().split()) for path in tracked if path.suffix == ".md")
    assert 0 < words <= WORDS
