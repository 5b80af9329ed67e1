"""Count how many small faults in a package its tests notice.

Faults are made one at a time, in a copy of the project: a comparison or a sign is reversed, two
arguments are exchanged, a constant is changed, a condition is negated, a statement is removed.
First the test file that mirrors the module is run, then the tests of the package. Faults that
no test notices are listed; some of them change nothing that can be observed.

    python benchmarks/mutations.py --package training --count 20 --seed 1
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPPOSITE: dict[type[ast.AST], Any] = {
    **{ast.Lt: ast.GtE(), ast.GtE: ast.Lt(), ast.Gt: ast.LtE(), ast.LtE: ast.Gt()},
    **{ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq(), ast.Is: ast.IsNot(), ast.IsNot: ast.Is()},
    **{ast.In: ast.NotIn(), ast.NotIn: ast.In(), ast.Add: ast.Sub(), ast.Sub: ast.Add()},
    **{ast.Mult: ast.Div(), ast.Div: ast.Mult(), ast.FloorDiv: ast.Mult()},
}
UNTOUCHED = {".venv", "results", "runs", "data", "weights"}
"""Folders at the top of a project that hold neither code nor tests."""


@dataclass(frozen=True, order=True)
class Mutation:
    """One fault: bytes of a file that are replaced."""

    file: Path
    start: int
    end: int
    new: str

    def described(self, root: Path) -> str:
        """Return its place and its change in words."""
        source = (root / self.file).read_bytes()
        line = source.count(b"\n", 0, self.start) + 1
        return f"{self.file}:{line}: {source[self.start : self.end].decode()} -> {self.new}"


def mutants(node: ast.AST) -> Iterator[ast.AST]:
    """Yield faulty replacements of a node."""
    other = copy.deepcopy(node)
    match other:
        case ast.Compare(ops=[op]) if type(op) in OPPOSITE:
            other.ops = [OPPOSITE[type(op)]]
        case ast.BinOp(op=op) if type(op) in OPPOSITE:
            other.op = OPPOSITE[type(op)]
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            other = operand
        case ast.Constant(value=bool(value)):
            other.value = not value
        case ast.Constant(value=int(value) | float(value)):
            other.value = value + 1
        case ast.Call(args=[first, second, *rest]):
            other.args = [second, first, *rest]
        case ast.IfExp(test=test):
            other.test = ast.UnaryOp(ast.Not(), test)
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            other = ast.Pass()
        case _:
            return
    yield ast.fix_missing_locations(other)


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it, without annotations and decorators."""
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    yield from parts(child)


def mutations(root: Path, file: Path) -> Iterator[Mutation]:
    """Yield all possible faults in a file, given from the project's root."""
    source = (root / file).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in parts(ast.parse(source)):
        changed = [(node, other) for other in mutants(node)]
        if isinstance(node, ast.If | ast.While):
            changed.append((node.test, ast.UnaryOp(ast.Not(), node.test)))
        for old, new in changed:
            if isinstance(old, ast.expr | ast.stmt):
                start = starts[old.lineno - 1] + old.col_offset
                end = starts[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0)
                text = ast.unparse(new)
                replaced = text if isinstance(new, ast.stmt) else f"({text})"
                yield Mutation(file, start, end, replaced)


def pass_tests(root: Path, target: Path) -> bool:
    """Return whether tests or a module's examples pass; after 10 minutes they have failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(target)]
    if target.parts[0] == "src":
        command.append("--doctest-modules")
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        completed = subprocess.run(
            command, cwd=root, env=environment, timeout=600, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return completed.returncode in (0, 5)  # 5: there is no test


def targets(root: Path, file: Path, package: str) -> list[Path]:
    """Return a module (its examples), the test file that mirrors it, and its package's tests."""
    inside = file.relative_to("src/vrtspike")
    mirror = Path("tests") / inside.with_name(f"test_{inside.name}")
    candidates = (file, mirror, Path("tests") / package)
    return [target for target in candidates if (root / target).exists()]


def try_mutations(
    root: Path, package: str, count: int, seed: int
) -> Iterator[tuple[Mutation, bool]]:
    """Make faults in a copy of a project; yields each with True if a test notices it."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(root, project, ignore=lambda at, _: UNTOUCHED if Path(at) == root else ())
        if (root.parent / "shared").is_dir():
            (project.parent / "shared").symlink_to(root.parent / "shared")
        files = sorted((project / "src/vrtspike" / package).rglob("*.py"))
        possible: list[Mutation] = []
        for file in files:
            possible += mutations(project, file.relative_to(project))
        chosen = random.Random(seed).sample(sorted(possible), min(count, len(possible)))
        if not pass_tests(project, Path("tests") / package):
            raise SystemExit(f"tests/{package}: they fail as they are; fix that first")
        for mutation in chosen:
            path = project / mutation.file
            source = path.read_bytes()
            changed = source[: mutation.start] + mutation.new.encode() + source[mutation.end :]
            path.write_bytes(changed)
            tests = targets(project, mutation.file, package)
            yield mutation, not all(pass_tests(project, target) for target in tests)
            path.write_bytes(source)


def main(words: Sequence[str] | None = None) -> None:
    """Try faults; print those that no test notices, and the rate."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--package", required=True, help="below src/vrtspike, such as training")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    options = parser.parse_args(words)
    results = []
    for mutation, noticed in try_mutations(
        options.root, options.package, options.count, options.seed
    ):
        results.append(noticed)
        if not noticed:
            print(f"unnoticed: {mutation.described(options.root)}", flush=True)
    print(f"noticed: {sum(results)} of {len(results)}")


if __name__ == "__main__":
    main()
