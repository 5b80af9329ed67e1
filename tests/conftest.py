"""Fixtures that several packages share."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest_plugins = [
    "tests.helpers.clock",
    "tests.helpers.published_runs",
    "tests.helpers.small_run_fixtures",
]

REPOSITORY = Path(__file__).resolve().parent.parent

# Tests have no presets but their own: the workflow's are found by name wherever a project is.
os.environ["VRTSPIKE_WORKFLOW"] = str(REPOSITORY / "tests")

# What runs in the background ignores Ctrl-C (and, under nohup, the end of its terminal), and so
# would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


SEED = int(os.environ.get("VRTSPIKE_TEST_SEED", "0"))


COSTS = {"endurance": 20, "workflow": 10, "slow": 5}
"""Roughly how many seconds a test with a marker takes."""
LONGEST = (
    "test_cluster_faults.py",
    "test_kills.py",
    "test_compilation.py",
    "test_disks.py",
    "test_staleness.py",
    "test_generic_profile.py",
)
"""Files of few tests that take minutes: they begin first, in this order."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On several cores the longest files begin first: none is left to one core at the end."""
    if not hasattr(config, "workerinput"):
        return
    seconds: Counter[Path] = Counter()
    for item in items:
        seconds[item.path] += max(
            (COSTS.get(mark.name, 0) for mark in item.iter_markers()), default=0
        )
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (order.get(item.path.name, len(LONGEST)), -seconds[item.path]))


NOT_INSTALLED = re.compile("CUDA device|without a CUDA driver|has a GPU|real samples|pyiqa")
"""Reasons of skips that are allowed where all else is installed (``.ci/run``), in part."""


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Fail on other skips if ``CI=true``, where all that tests need is installed."""
    if not report.skipped or os.environ.get("CI") != "true" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not NOT_INSTALLED.search(reason):
        report.outcome = "failed"
        report.longrepr = f"a skip, but CI=true: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Refuse the skip of a test."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse the skip of a file."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Random numbers begin again for every test, so that no test depends on those before it."""
    random.seed(SEED)
    np.random.seed(SEED)
    if "torch" in sys.modules:  # importing it takes seconds that many tests do not need
        sys.modules["torch"].manual_seed(SEED)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The top folder of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real samples and golden files beside the checkout, or a skip."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the real samples: no folder 'shared' beside the checkout")
    return folder


@pytest.fixture(scope="session")
def make_once(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Callable[[Path], object]], Path]:
    """Makes a folder once for all processes of a test run: who comes later waits for it.

    Nobody changes what is in it; it is copied by who has to.
    """
    top = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        top = top.parent

    def make(name: str, write: Callable[[Path], object]) -> Path:
        folder, finished = top / name, top / f"{name}.finished"
        with (top / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not finished.exists():
                shutil.rmtree(folder, ignore_errors=True)  # another process may have failed
                write(folder)
                finished.touch()
        return folder

    return make


@pytest.fixture
def install_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets the driver (``tests/fake_driver``) list GPUs, for programs too; none until it is called.

    They are mappings; memory is in GiB.
    """
    monkeypatch.setattr(
        "vrtspike.monitoring.nvml.pynvml", import_module("tests.fake_driver.pynvml")
    )
    paths = [str(REPOSITORY / "tests/fake_driver"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("VRTSPIKE_GPU_LOCKS", str(tmp_path / "locks"))
    for name in ("FAKE_GPUS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)

    def install(*gpus: dict[str, Any]) -> None:
        (tmp_path / "gpus.json").write_text(json.dumps(gpus))
        monkeypatch.setenv("FAKE_GPUS", str(tmp_path / "gpus.json"))

    return install
