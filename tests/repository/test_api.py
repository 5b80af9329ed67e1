"""Promises of docs/api.md to other programs, and its notebook."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

import vrtspike
import vrtspike.sst as sst
from tests.helpers.concurrency import run_python
from tests.helpers.small_run import arrays
from vrtspike.restoration.loading import load
from vrtspike.runs import named_models


@pytest.fixture(scope="module")
def page(repository) -> str:
    return (repository / "docs/api.md").read_text(encoding="utf-8")


@pytest.fixture
def demo(small_run, tmp_path, monkeypatch):
    """A folder like the project's after `make demo`, with a smaller run."""
    for link, target in (
        ("results/train/demo", small_run.train),
        ("data/demo/test/GOPR0101_11_00", small_run.raw / "test" / "b"),
    ):
        (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / link).symlink_to(target)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def promised(page: str) -> dict[str, list[str]]:
    """Stable names by module."""
    names: dict[str, list[str]] = {}
    for module, row in re.findall(r"^\| `(vrtspike[\w.]*)` \| ([^|]*) \|", page, re.MULTILINE):
        names.setdefault(module, []).extend(re.findall(r"`(\w+)`", row))
    return names


def test_every_promised_name_is_there_and_explained(page):
    for module, names in promised(page).items():
        for name in names:
            thing = getattr(importlib.import_module(module), name)
            assert thing.__doc__, f"{module}.{name}"


def test_the_page_lists_everything_that_the_package_offers(page):
    assert set(promised(page)["vrtspike"]) == set(vrtspike.__all__)
    constants = {"MODEL_SAVE_PATH"}
    assert set(promised(page)["vrtspike.sst"]) == set(sst.__all__) - constants


@pytest.mark.parametrize("module", [vrtspike, sst])
def test_type_checkers_find_every_name_and_so_does_dir(module):
    stub = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    names = set()
    for statement in stub.body:
        if isinstance(statement, ast.ImportFrom):
            (alias,) = statement.names
            assert alias.asname == alias.name  # public
            names.add(alias.name)
    assert names == set(module.__all__)
    assert names <= set(dir(module))


@pytest.fixture(scope="module")
def examples(page) -> list[str]:
    """The blocks of code of the page: restoring, training (tests/workflow), a loaded model."""
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_calls_for_notebooks_restore_a_clip(examples, demo, small_run, monkeypatch):
    shutil.copytree(small_run.train, demo / "package/general")
    monkeypatch.setattr(named_models, "bundled_folder", (demo / "package").joinpath)
    names: dict[str, Any] = {}
    exec(examples[0], names)
    expected = load(small_run.train).restore(*arrays(small_run.raw / "test" / "b"))
    np.testing.assert_array_equal(names["restored"], expected)
    assert [path.parent for path in names["result"].files] == [Path("restored/restored")] * 5
    assert {"psnr_blur", "psnr"} <= set(names["result"].metrics)


def test_the_example_restores_a_clip(examples, demo, small_run):
    names: dict[str, np.ndarray] = {}
    exec(examples[2], names)
    frames, spikes = arrays(small_run.raw / "test" / "b")
    np.testing.assert_array_equal(names["frames"], frames)
    np.testing.assert_array_equal(names["counts"].sum(axis=0), spikes[0].sum(axis=0))
    assert names["counts"].shape == (32, 24, 32)
    np.testing.assert_array_equal(
        names["restored"], load(small_run.train, device="cpu").restore(frames, spikes)
    )


def test_names_are_imported_when_they_are_used():
    assert "__version__" in dir(vrtspike)
    with pytest.raises(AttributeError, match="module 'vrtspike' has no attribute 'deblur'"):
        _ = vrtspike.deblur
    code = """
import sys, vrtspike
print(*[name for name in ("numpy", "torch", "cv2", "av", "zarr", "yaml") if name in sys.modules])
vrtspike.read_spikes, vrtspike.voxelize
print("torch" in sys.modules, "numpy" in sys.modules)
"""
    assert run_python("-c", code).stdout.splitlines() == ["", "False True"]


@pytest.fixture(scope="module")
def notebook(repository) -> nbformat.NotebookNode:
    return nbformat.read(repository / "docs/restore.ipynb", as_version=4)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_notebook_shows_stored_outputs(notebook):
    """For those who read it without running it; ``jupyter execute --inplace`` writes them."""
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = "".join(str(cell.outputs) for cell in cells)
    assert outputs.count("image/png") == 2
    assert outputs.count("<video") == 1
    for shown in ("psnr_blur", "10 sequences, 10 without faults", "280 steps", "16 frames"):
        assert shown in outputs
    assert "Traceback" not in outputs
    # Paths are those of the project, not of the machine that wrote them.
    assert not re.search(r"[\s'\"]/\w+/\w", re.sub(r"base64,[^\"]*", "", outputs))
