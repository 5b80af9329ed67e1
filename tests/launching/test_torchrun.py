"""What the training processes of a machine are started with."""

from __future__ import annotations

import json

import pytest

from vrtspike.launching import torchrun
from vrtspike.launching.gpus import Devices
from vrtspike.launching.torchrun import training_environment


@pytest.mark.parametrize(
    ("given", "ranks", "expected"),
    [
        (None, 1, "12"),
        (None, 5, "2"),
        (None, 24, "1"),
        ("8", 2, "4"),
        ("8", 1, "8"),
        # More than there are would fight for them.
        ("1024", 3, "4"),
        ("", 1, "12"),
    ],
)
def test_threads_are_divided_among_the_processes(monkeypatch, given, ranks, expected):
    # The machine of the tests may have too few to tell a quotient from 1.
    monkeypatch.setattr(torchrun, "available_cpus", lambda: 12)
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert training_environment(Devices(), ranks)["OMP_NUM_THREADS"] == expected


RANK = """
import json, os, sys
from pathlib import Path
import torch
from torch.utils.data import DataLoader, Dataset
class Threads(Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, index):
        return torch.get_num_threads()
if __name__ == "__main__":
    folder = Path(sys.argv[sys.argv.index("--run-dir") + 1])
    names = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "VRTSPIKE_HELD_LOCKS")
    found = {name: os.environ.get(name) for name in names}
    found["threads"] = torch.get_num_threads()
    found["worker"] = next(iter(DataLoader(Threads(), num_workers=1))).item()
    (folder / f"{os.environ['LOCAL_RANK']}.json").write_text(json.dumps(found))
"""


@pytest.mark.slow
def test_processes_and_their_workers_share_the_cpus(tmp_path, monkeypatch):
    """As they find them, once ``torchrun`` and the data loader have had their say."""
    # PyTorch takes no more than the machine of the tests has.
    monkeypatch.setattr(torchrun, "available_cpus", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (tmp_path / "rank.py").write_text(RANK)
    devices = Devices(("GPU-a", "GPU-b"), (), (tmp_path / "a.lock", tmp_path / "b.lock"))
    ending = torchrun.run_torchrun(tmp_path, devices, tmp_path / "rank.py", {})
    assert (ending.code, ending.was_stopped) == (0, False)
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for each in found:
        assert each["OMP_NUM_THREADS"] == "1"
        assert each["threads"] == 1
        # A worker decodes for itself.
        assert each["worker"] == 1
        assert each["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
        assert each["VRTSPIKE_HELD_LOCKS"] == f"{tmp_path}/a.lock:{tmp_path}/b.lock"
