"""The test file of each module, as tests/README.md describes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTED_WITH = {
    "analysis/diagnosis/test_symptom.py": [
        "analysis/diagnosis/learning_symptoms",
        "analysis/diagnosis/loading_symptoms",
        "analysis/diagnosis/memory_symptoms",
        "analysis/diagnosis/speed_symptoms",
    ],
    "analysis/comparisons/test_compare.py": ["analysis/comparisons/quality_tables"],
    "commands/test_documented.py": [
        "commands/advise",
        "commands/analyze",
        "commands/calibrate",
        "commands/compare",
        "commands/doctor",
        "commands/export",
        "commands/memory",
        "commands/pack",
        "commands/run_argument",
        "commands/sensor_option",
        "commands/show",
        "commands/verify",
        "commands/why",
    ],
    "commands/test_init.py": ["commands/new_project/data_inspection", "commands/new_project/files"],
    "analysis/test_run_memory.py": ["runs/selection"],
    "commands/test_data.py": ["commands/public_sets/folders", "commands/public_sets/table"],
    "commands/readiness/test_checks.py": ["commands/readiness/check"],
    "commands/test_restore.py": ["restoration/restore_command"],
    "config/test_limits.py": [
        "config/run_schema",
        "deblurring_settings/data",
        "deblurring_settings/evaluation",
    ],
    "config/test_loading.py": ["config/checking"],
    "config/test_reference.py": ["config/fields"],
    "config/test_workflow.py": ["config/workflow_loading", "config/workflow_schema"],
    "data/checks/test_consistency.py": ["data/checks/frame_summaries"],
    "data/simulation/test_general.py": ["data/simulation/photographs"],
    "data/store/test_reading.py": ["data/store/metadata"],
    "data/test_data_size.py": ["data/data_source"],
    "data/test_scripts.py": ["data/alignment_table"],
    "deblurring/advice/test_recommendation.py": ["deblurring/advice/resources"],
    "evaluation/test_evaluate.py": ["evaluation/summary"],
    "losses/test_registry.py": ["losses/term"],
    "metrics/test_registry.py": ["metrics/lpips", "metrics/metric"],
    "models/test_attention.py": ["models/recomputed_attention"],
    "monitoring/test_timing.py": ["monitoring/timing_text"],
    "paper_figures/test_restored_results.py": ["paper_figures/results_of_folders"],
    "paper_figures/test_writing.py": [
        "paper_figures/crop_choice",
        "paper_figures/crops",
        "paper_figures/gain_over_motion",
        "paper_figures/psnr_over_frames",
        "paper_figures/quality_over_cost",
        "paper_figures/results",
        "paper_figures/style",
        "paper_figures/xt",
    ],
    "reporting/test_page.py": ["reporting/embedded_media", "reporting/verdict"],
    "restoration/inference/test_tiling.py": ["restoration/inputs/clip_source"],
    "restoration/test_packing.py": ["reporting/packing"],
    "runs/test_published.py": ["runs/validation_pictures"],
    "sst/test_dataset.py": ["sst/objective"],
    "sst/test_reading.py": ["sst/netcdf"],
    "sst/test_store.py": ["sst/preparation"],
    "training/test_fit.py": ["training/run"],
    "workflow/test_train_call.py": ["api/training"],
}
"""Modules that are tested together with another one, by the file of their tests."""


def modules(package: Path) -> Iterator[str]:
    """The modules of the package, such as ``io/files``."""
    for source in sorted(package.rglob("*.py")):
        if not source.stem.startswith("__"):
            yield str(source.relative_to(package).with_suffix(""))


def public_functions(source: Path) -> list[ast.FunctionDef]:
    """Functions and methods that other modules call."""
    functions = []
    for node in ast.parse(source.read_text()).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        functions += [member for member in members if isinstance(member, ast.FunctionDef)]
    return [function for function in functions if not function.name.startswith("_")]


def needs_file(source: Path) -> bool:
    """Return whether a module has functions, and not an example in the docstring of each."""
    nodes = ast.walk(ast.parse(source.read_text()))
    if not any(isinstance(node, ast.FunctionDef) for node in nodes):
        return False
    functions = public_functions(source)
    return not functions or any(
        ">>>" not in (ast.get_docstring(function) or "") for function in functions
    )


def own_file(tests: Path, module: str) -> Path | None:
    """The file of the module's name or, for modules of a small package, of the package's."""
    place = tests / module
    for path in (place, place.parent):
        file = path.with_name(f"test_{path.name}.py")
        if file.is_file():
            return file
    return None


@cache
def files_by_name(repository: Path) -> dict[str, Path]:
    """Files by the dotted names of modules, and programs by their names."""
    package = repository / "src/vrtspike"
    sources = [*package.rglob("*.py"), *(repository / "tests").rglob("*.py")]
    files = {}
    for source in sources:
        root = repository if source.is_relative_to(repository / "tests") else package.parent
        name = ".".join(source.relative_to(root).with_suffix("").parts)
        files[name.removesuffix(".__init__")] = source
    return files | {source.stem: source for source in (repository / "scripts").glob("*.py")}


@cache
def used(path: Path, repository: Path) -> frozenset[Path]:
    """Files that a file imports, and modules and programs that it names in texts."""
    names = set()
    stub = path.with_suffix(".pyi")
    # A stub names the modules that its package imports when they are used.
    files = [path, stub] if stub.is_file() else [path]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    by_name = files_by_name(repository)
    return frozenset(by_name[name] for name in names & by_name.keys())


def functions(source: Path) -> dict[str, bool]:
    """Names of the functions of a file, true for fixtures."""
    names = {}
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            names[node.name] = any(text.startswith("pytest.fixture") for text in decorators)
    return names


def listed_helpers(page: str, kind: str) -> dict[str, set[str]]:
    """Names by file in the table of fixtures, or of functions, of tests/README.md."""
    table = page.split(f"\n| {kind} | file | gives |\n", 1)[1].split("\n\n", 1)[0]
    helpers: dict[str, set[str]] = {}
    for names, file in re.findall(r"^\| (`.+?`) \| `(.+?)` \|", table, re.MULTILINE):
        helpers.setdefault(file, set()).update(re.findall(r"`(\w+)`", names))
    return helpers
