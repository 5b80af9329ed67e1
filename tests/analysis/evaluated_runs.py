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


def change(path, section=None, **values):
    """Other values of a file, or of a section of a run's settings."""
    contents = read_json(path)
    (contents if section is None else contents["settings"][section]).update(values)
    write_json(path, contents)
