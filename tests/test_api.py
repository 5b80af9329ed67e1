"""What docs/api.md promises to programs of others, and its notebook."""

from __future__ import annotations

import importlib
import re

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import vrtspike
from tests.concurrency import run_python
from tests.deblurring.evaluation.conftest import arrays, small_run
from vrtspike.deblurring.evaluation.trained import load
from vrtspike.deblurring.video import read_video
from vrtspike.io.images import read_rgb

__all__ = ["small_run"]


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
        (tmp_path / link).parent.mkdir(parents=True)
        (tmp_path / link).symlink_to(target)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_promised_name_is_there_and_explained(page):
    rows = re.findall(r"^\| `(vrtspike[\w.]*)` \| ([^|]*) \|", page, re.MULTILINE)
    assert len(rows) >= 15
    for module, names in rows:
        for name in re.findall(r"`(\w+)`", names):
            thing = getattr(importlib.import_module(module), name)
            assert thing.__doc__, f"{module}.{name}"


def test_the_example_restores_a_clip(page, demo, small_run):
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    known: dict[str, np.ndarray] = {}
    exec(example, known)
    frames, spikes = arrays(small_run.raw / "test" / "b")
    np.testing.assert_array_equal(known["frames"], frames)
    np.testing.assert_array_equal(known["counts"].sum(axis=0), spikes[0].sum(axis=0))
    assert known["counts"].shape == (32, 24, 32)
    np.testing.assert_array_equal(
        known["restored"], load(small_run.train, device="cpu").restore(frames, spikes)
    )


def test_names_are_imported_when_they_are_used():
    assert set(vrtspike.__all__) <= set(dir(vrtspike))
    assert "__version__" in dir(vrtspike)
    with pytest.raises(AttributeError, match="module 'vrtspike' has no attribute 'restore'"):
        _ = vrtspike.restore
    code = """
import sys, vrtspike
print(*[name for name in ("numpy", "torch", "cv2", "av", "zarr", "yaml") if name in sys.modules])
vrtspike.read_spikes, vrtspike.voxelize
print("torch" in sys.modules, "numpy" in sys.modules)
"""
    assert run_python("-c", code).stdout.splitlines() == ["", "False True"]


@pytest.mark.slow
def test_the_notebook_runs(repository, demo, small_run):
    notebook = nbformat.read(repository / "docs/restore.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in code:
        assert (cell.outputs, cell.execution_count) == ([], None), "outputs do not belong into git"
    client = NotebookClient(notebook, timeout=800, resources={"metadata": {"path": str(demo)}})
    client.execute()
    printed = "".join(
        output.text for cell in code for output in cell.outputs if output.output_type == "stream"
    )
    assert "small 0123456789ab cpu float32" in printed
    assert "restored: (5, 48, 64, 3) uint8" in printed
    assert printed.count(" dB -> ") == 5
    pictures = [output for cell in code for output in cell.outputs if "image/png" in str(output)]
    assert len(pictures) == 2
    (video,) = demo.glob("*.mp4")
    frames = list(read_video(video))
    assert len(frames) == 5
    blur = read_rgb(small_run.raw / "test/b/blur/000001.png")
    assert np.abs(frames[0][:, :64].astype(int) - blur).mean() < 6
