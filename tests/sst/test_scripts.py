from __future__ import annotations

import sys
from multiprocessing.spawn import get_preparation_data

import pytest

from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.scripts import workers_without_script


@pytest.fixture
def script(monkeypatch):
    """The program's script is ``train.py``, which workers would run."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", "/home/someone/train.py", raising=False)
    monkeypatch.setattr(main, "__spec__", None)
    return main


def sent() -> str | None:
    return get_preparation_data("worker").get("init_main_from_path")


def test_workers_do_not_run_the_script(script):
    assert sent() == "/home/someone/train.py"
    with workers_without_script(ERA5SSTMonthlyDataset):
        assert sent() is None
    assert sent() == "/home/someone/train.py"
    with pytest.raises(ZeroDivisionError), workers_without_script(ERA5SSTMonthlyDataset):
        _ = 1 / 0
    assert sent() == "/home/someone/train.py"


def test_a_module_that_was_started_by_its_name_is_no_exception(script, monkeypatch):
    specification = type("Spec", (), {"name": "package.train"})()
    monkeypatch.setattr(script, "__spec__", specification)
    with workers_without_script(ERA5SSTMonthlyDataset):
        assert "init_main_from_name" not in get_preparation_data("worker")
    assert script.__spec__ is specification


def test_workers_run_a_script_that_holds_what_they_need(script):
    own = type("Own", (), {"__module__": "__main__"})
    with workers_without_script(ERA5SSTMonthlyDataset, own):
        assert sent() == "/home/someone/train.py"
