"""docs/architecture.md: its chains and walk against the code; docs/layers.md: every import."""

from __future__ import annotations

import ast
import html
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name

import pytest

from vrtspike.config.tasks import TASKS


def section(page: str, title: str) -> str:
    """The text below a heading, up to the next one."""
    return page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def layers(page: str) -> dict[str, int]:
    """Packages and their layers in the table."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE)
    return {package: int(layer) for layer, package in rows}


def order_within(page: str, package: str) -> dict[str, int]:
    """Parts of a package and their lines in its list."""
    text = page.split(f"\n## Order within `{package}`\n", 1)[1].partition("\n#")[0]
    lines = re.findall(r"^(\d+)\. ([^:]*):", text, re.MULTILINE)
    return {part: int(line) for line, parts in lines for part in re.findall(r"`(\w+)`", parts)}


def imports(source: Path) -> set[str]:
    """Dotted names that a file imports from the package, without the package's own."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "vrtspike":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vrtspike."):
            names |= {f"{node.module.removeprefix('vrtspike.')}.{a.name}" for a in node.names}
    return names


@pytest.fixture(scope="module")
def page(repository) -> str:
    return (repository / "docs/architecture.md").read_text()


@pytest.fixture(scope="module")
def layers_page(repository) -> str:
    return (repository / "docs/layers.md").read_text()


def check(package: Path, prefix: str, numbers: dict[str, int]) -> list[str]:
    """Imports of the parts of a package from their own layer or above."""
    faults, used = [], set()
    for source in sorted(package.rglob("*.py")):
        part = source.relative_to(package).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        used.add(part)
        for name in imports(source):
            if prefix and not name.startswith(prefix):
                continue
            other = name.removeprefix(prefix).split(".")[0]
            if other != part and numbers[other] >= numbers[part]:
                faults.append(f"{source.relative_to(package)}: imports {name}")
    assert used == set(numbers)
    return faults


def test_no_package_imports_from_above(repository, layers_page):
    numbers = layers(layers_page)
    assert check(repository / "src/vrtspike", "", numbers) == []


def test_the_groups_at_the_top_hold_every_layer_once(layers_page):
    groups = re.findall(r"^\| (\d+) to (\d+) \|", layers_page, re.MULTILINE)
    held = sorted(n for first, last in groups for n in range(int(first), int(last) + 1))
    assert held == sorted(set(layers(layers_page).values()))


def test_only_commands_import_a_task(repository, layers_page):
    """Others ask the registry (:mod:`vrtspike.config.tasks`)."""
    package = repository / "src/vrtspike"
    tasks = set(TASKS)
    for part in layers(layers_page).keys() - tasks - {"commands"}:
        for source in [*(package / part).rglob("*.py"), *package.glob(f"{part}.py")]:
            packages = {name.split(".")[0] for name in imports(source)}
            assert not packages & tasks, source


@pytest.mark.parametrize("package", ["analysis", "data", "restoration"])
def test_no_part_of_a_package_imports_from_above(repository, layers_page, package):
    numbers = order_within(layers_page, package)
    assert check(repository / "src/vrtspike" / package, f"{package}.", numbers) == []


def dotted_names(text: str) -> list[str]:
    """Names of modules, classes and functions; other names with a dot are files."""
    names = re.findall(r"`([a-z_]+(?:\.\w+)+)`", text)
    return [
        name for name in names if not re.search(r"\.(csv|dat|json|html|png|py|smk|toml)$", name)
    ]


def test_every_name_of_the_pages_is_in_the_code(page, layers_page):
    names = dotted_names(page + layers_page)
    assert len(names) > 10
    for name in names:
        assert resolve_name(f"vrtspike.{name.removeprefix('vrtspike.')}") is not None


def shapes(text: str) -> set[str]:
    """Shapes of arrays in a text, such as ``(T,h,ceil(w/8))``, without spaces."""
    found = re.findall(r"\([A-Za-z](?:[^()]|\(w ?/ ?8\))*\)", text)
    return {re.sub(r"\s", "", shape) for shape in found if re.match(r"\([A-Za-z0-9]+,", shape)}


def test_every_shape_of_the_walk_is_that_of_the_docstrings(page):
    rows = section(page, "One frame through the code").split("\n|---|---|---|\n")[1].splitlines()
    rows = [row for row in rows if row and dotted_names(row)]
    assert len(rows) >= 7
    assert len(shapes(" ".join(rows))) >= 8
    for row in rows:
        texts = [resolve_name(f"vrtspike.{name}").__doc__ for name in dotted_names(row)]
        assert shapes(row) - {"(H,W,3)", "(B,...)"} <= shapes(" ".join(texts)), row


CHAINS = "From a command to the code"


@dataclass(frozen=True)
class ChainLine:
    """A line of a call chain: a file and a function in it, or a rule.

    Attributes:
        file: path below the repository.
        name: function, ``Class.method`` or rule.
        depth: number of spaces in front.
    """

    file: Path
    name: str
    depth: int

    @property
    def word(self) -> str:
        """The word by which its caller names it: of a program its file, else its function."""
        return self.file.name if self.file.parent.name == "scripts" else self.name.split(".")[-1]


def chain_lines(repository: Path, page: str) -> list[ChainLine]:
    """Lines of all chains of the page."""
    lines = []
    text = section(page, CHAINS)
    for block in re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in filter(None, block.splitlines()):
            file, name = line.strip().split(": ")
            top = file.split("/")[0]
            root = repository if top in ("rules", "scripts") else repository / "src/vrtspike"
            lines.append(ChainLine(root / file, name, len(line) - len(line.lstrip())))
    return lines


def defined(file: Path) -> set[str]:
    """Functions and methods of a module, or the rules of a file of rules."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".smk":
        return set(re.findall(r"^(?:rule|checkpoint) (\w+):", text, re.MULTILINE))
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


def test_every_line_of_the_chains_exists(repository, page):
    lines = chain_lines(repository, page)
    assert len(lines) > 40
    lost = [
        line for line in lines if not line.file.is_file() or line.name not in defined(line.file)
    ]
    assert lost == []


def calling_code(tree: ast.Module, name: str) -> list[ast.stmt]:
    """A function, or the class of a method, and what it uses of its file: code and tables."""
    definitions: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            definitions |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    found: dict[str, ast.stmt] = {}
    waiting = [name.split(".")[0]]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found[current] = definitions[current]
        for part in ast.walk(definitions[current]):
            if isinstance(part, ast.Name) and part.id in definitions:
                waiting.append(part.id)
    return list(found.values())


def last_name(node: ast.expr) -> str | None:
    """The name of a variable, or of an attribute of anything."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def calls(code: ast.stmt, word: str) -> bool:
    """Whether code calls a function of this name, passes it, or is a table that holds it.

    A variable of the code that has the name, and is passed, is no function.
    """
    nodes = list(ast.walk(code))
    if isinstance(code, ast.Assign | ast.AnnAssign):
        return any(isinstance(node, ast.expr) and last_name(node) == word for node in nodes)
    variables = {node.arg for node in nodes if isinstance(node, ast.arg)}
    variables |= {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        if last_name(call.func) == word:
            return True
        passed = [*call.args, *(keyword.value for keyword in call.keywords)]
        for value in passed:
            is_variable = isinstance(value, ast.Name) and value.id in variables
            if last_name(value) == word and not is_variable:
                return True
    return False


def is_called(caller: ChainLine, line: ChainLine) -> bool:
    """Whether the code of a line calls the next one; a program is named as a file."""
    text = caller.file.read_text(encoding="utf-8")
    if caller.file.suffix == ".smk" or line.word.endswith(".py"):
        return re.search(rf"\b{re.escape(line.word)}\b", text) is not None
    return any(calls(code, line.word) for code in calling_code(ast.parse(text), caller.name))


def test_every_line_of_the_chains_is_called_by_the_one_above(repository, page):
    callers: list[ChainLine] = []
    uncalled = []
    for line in chain_lines(repository, page):
        callers = [caller for caller in callers if caller.depth < line.depth]
        if callers and not is_called(callers[-1], line):
            uncalled.append((callers[-1], line))
        callers.append(line)
    assert uncalled == []


PARTS = {"ablation_of_preset": "ablation", "fetch_weights": "weights", "demo_summary": "demo"}
"""Rules that make what another one asks for, which is the stage of the page."""


def stages(text: str) -> set[str]:
    """Stages in the first columns of tables."""
    rows = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    return {stage for row in rows for stage in re.findall(r"`(\w+)`", row)}


@pytest.fixture(scope="module")
def rules(repository) -> str:
    return "\n".join(path.read_text() for path in (repository / "rules").glob("*.smk"))


def test_the_stages_of_the_page_are_the_rules(page, rules):
    names = set(re.findall(r"^ *(?:rule|checkpoint) (\w+):", rules, re.MULTILINE))
    assert PARTS.keys() <= names
    assert stages(section(page, "Data flow")) == names - PARTS.keys()


def test_the_stages_of_the_page_are_in_the_files_of_the_table(repository, page):
    rows = re.findall(r"^\| (`.*?`) \| (`.*?`) \|", section(page, "Data flow"), re.MULTILINE)
    assert len(rows) > 20
    for cell, files in rows:
        found = [repository / "rules" / name for name in re.findall(r"`([\w.]+)`", files)]
        assert set(re.findall(r"`(\w+)`", cell)) <= set().union(*map(defined, found)), cell
        assert all(defined(file) & set(re.findall(r"`(\w+)`", cell)) for file in found), cell


def test_the_programs_that_no_rule_calls_are_named(repository, page, rules):
    programs = {path.name for path in (repository / "scripts").glob("*.py")}
    called = set(re.findall(r"program\([\"'](\w+\.py)[\"']\)", rules))
    (text,) = re.findall(r"^No rule calls .*?\n\n", page, re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`(\w+\.py)`", text))
    assert named - {"launch_training.py"} == programs - called


PICTURE = "images/stages.svg"


@pytest.fixture(scope="module")
def drawing(repository) -> str:
    return (repository / "docs" / PICTURE).read_text(encoding="utf-8")


def drawn(drawing: str, tag: str) -> list[str]:
    """Texts of all elements of a kind in an SVG file."""
    return [html.unescape(text) for text in re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", drawing)]


def test_the_picture_shows_every_stage(page, drawing):
    assert page.count(f"]({PICTURE})") == 1
    words = set(re.findall(r"\w+", " ".join(drawn(drawing, "text"))))
    flow = section(page, "Data flow").split("\nThe picture leaves out ")
    assert len(flow) == 2
    assert stages(flow[0]) - words == set()


def test_the_picture_is_drawn_from_its_source(repository, drawing):
    """Graphviz titles an arrow with the names of its ends."""
    source = (repository / "docs" / PICTURE).with_suffix(".dot").read_text(encoding="utf-8")
    chains = [re.findall(r"\w+", line) for line in source.splitlines() if "->" in line]
    arrows = {f"{start}->{end}" for chain in chains for start, end in pairwise(chain)}
    assert len(arrows) > 15
    assert {title for title in drawn(drawing, "title") if "->" in title} == arrows
    labels = dict(re.findall(r'^  (\w+) \[label = "(.+?)"\]$', source, re.MULTILINE))
    names = {name for chain in chains for name in chain}
    lines = [line for name in names for line in labels.get(name, name).split("\\n")]
    assert sorted(drawn(drawing, "text")) == sorted(lines)
