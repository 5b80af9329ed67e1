"""Runs and evaluations, as far as a leaderboard reads them."""

from __future__ import annotations

from pathlib import Path

from vrtspike.analysis.evaluation_files import write_summary
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import write_json
from vrtspike.runs.identity import RunIdentity


def publish(results: Path, name: str, spikes: bool, **summary) -> Path:
    """Write a run and its evaluation below a folder of results; returns the run's folder."""
    folder = results / "train" / name
    settings = DeblurringSettings.model_validate({"MODEL": {"USE_SPIKE": spikes}})
    folder.mkdir(parents=True)
    RunIdentity(name, settings, "dataset.json", f"print-{name}").write(folder)
    write_json(folder / "run.json", {"status": "finished", "parameters": 1234567})
    for log in ("metrics.jsonl", "timing.jsonl", "memory.jsonl"):
        (folder / log).write_text("")
    means = {"psnr": {"restored": 33.125, "restored_error": 0.5}, "ssim": {"restored": 0.95}}
    contents = {"fingerprint": f"print-{name}", "dataset": "gopro_spike", "split": "test"}
    write_summary(
        results / "evaluate" / name / "summary.json",
        {**contents, "protocol": "own", "metrics": means, **summary},
    )
    return folder
