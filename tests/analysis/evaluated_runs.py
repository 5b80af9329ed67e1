"""Published runs with evaluations, whose values are given or changed."""

from __future__ import annotations

from vrtspike.io.files import read_json, write_json

SUMMARY = {"dataset_digest": "d", "split": "test", "tile": {"SIZE": 64}}


def means(before, after, loss=False):
    """The means of a metric over all frames, and its gain; of a loss, less is better."""
    gain = None if after is None else (before - after if loss else after - before)
    return {"blurry": before, "restored": after, "gain": gain}


def summary_of(run):
    """The file of the evaluation of a run."""
    return run.parent.parent / "evaluate" / run.name / "summary.json"


def evaluated(run, metrics):
    """Write the evaluation of a run."""
    summary = {"fingerprint": f"fingerprint of {run.name}", "metrics": metrics, **SUMMARY}
    write_json(summary_of(run), summary)


def write_evaluation(folder, name: str, psnr: float):
    """Write the evaluation of a deblurring run with a PSNR; returns its folder."""
    metrics = {
        "psnr": {"blurry": 25.0, "restored": psnr, "gain": psnr - 25},
        "ssim": {"blurry": 0.8, "restored": 0.9, "gain": 0.1},
        "lpips": {"blurry": 0.25, "restored": 0.125, "gain": 0.125},
    }
    write_json(
        folder / "summary.json", {"fingerprint": f"fingerprint of {name}", "metrics": metrics}
    )
    return folder


def change(path, section=None, **values):
    """Other values of a file, or of a section of a run's settings."""
    contents = read_json(path)
    (contents if section is None else contents["settings"][section]).update(values)
    write_json(path, contents)
