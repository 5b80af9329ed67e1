"""A data set without stores, and runs that name it, as far as an identity reads them."""

from __future__ import annotations

from pathlib import Path

from vrtspike.data.manifests import DATASET
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import write_json
from vrtspike.runs.identity import RunIdentity, identify, write_statistics

STATISTICS = {"mean": 0.1, "std": 0.2, "count": 3}


def write_dataset(path: Path, statistics: dict[str, float] | None, digest: str = "d") -> Path:
    manifest = {
        "schema": DATASET.schema,
        "dataset": "x",
        "bins": 4,
        "context": 0,
        "blur_dir": "auto",
        "excluded": {},
        "overlaps": {},
    }
    result = {"splits": {}, "held_out": ["a"], "statistics": statistics, "digest": digest}
    write_json(path, {**manifest, **result})
    return path


def write_teacher(folder: Path, settings: DeblurringSettings, weights: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights.safetensors").write_bytes(weights)
    write_json(folder / "statistics.json", {"statistics": STATISTICS})
    RunIdentity("t", settings, "dataset.json", "abc", "d").write(folder)
    return folder


def make_run(tmp_path, **sections):
    """A run folder with the identity of a data set in ``tmp_path``."""
    settings = DeblurringSettings.model_validate({"DATA": {"NUM_VOXEL_BINS": 4}, **sections})
    dataset = write_dataset(tmp_path / "dataset.json", STATISTICS)
    folder = tmp_path / "run"
    identify("x", settings, dataset).write(folder)
    return folder


def finish(folder):
    """Add the further files of a finished run."""
    write_statistics(RunIdentity.read(folder), folder)
    write_json(folder / "run.json", {"status": "finished"})
    for name in ("weights.safetensors", "code.json", "metrics.jsonl", "logs/memory.jsonl"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
