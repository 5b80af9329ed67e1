"""Frequent imports load nothing heavy: modules are counted, as times vary between machines."""

from __future__ import annotations

import pytest

from tests.helpers.concurrency import run_python
from vrtspike.config.tasks import TASKS

WITHOUT = {
    # Until its function begins, Ctrl-C ends in a traceback.
    "vrtspike.__main__": {"vrtspike.system", "argparse"},
    # Planning.
    "vrtspike.data.raw.survey": {"torch", "zarr", "pandas", "numpy", "cv2"},
    "vrtspike.data.raw.versions": {"torch", "zarr", "pandas", "numpy", "cv2"},
    **{module: {"torch"} for module in TASKS.values()},
    # Reading a preset takes no table.
    "vrtspike.config": {"torch", "cv2", "vrtspike.deblurring", "vrtspike.models"},
    # Restoring with a page takes no extra.
    "vrtspike.restoration.page.writing": {"pandas", "matplotlib", "scipy", "tensorstore"},
    # Tables and reports.
    "vrtspike.metrics.registry": {"torch", "lpips", "torchvision"},
}


@pytest.mark.parametrize("module", WITHOUT)
def test_what_a_module_does_without(module):
    imported = run_python("-c", f"import sys, {module}; print(*sys.modules)").stdout.split()
    assert module in imported
    assert WITHOUT[module].isdisjoint(imported)
