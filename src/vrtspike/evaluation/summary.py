"""The summary of an evaluation, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.data.clips.dataset import DatasetManifest
from vrtspike.deblurring.metrics import DEFINITIONS
from vrtspike.evaluation.measure import BLURRY, overall_means
from vrtspike.pages import Table, write_page
from vrtspike.runs.published import PublishedRun


def summarize(
    run: PublishedRun,
    dataset: DatasetManifest,
    sequences: pd.DataFrame,
    missing: Mapping[str, str],
) -> dict[str, Any]:
    """What was evaluated on what, and the means over sequences, as a JSON value.

    Args:
        run: the run whose weights were evaluated.
        dataset: the data set.
        sequences: means per sequence and scale.
        missing: metrics without figures, and the reason.
    """
    settings = run.settings
    scales = [float(scale) for scale in settings.TEST.EVAL_SCALES]
    main = 1.0 if 1.0 in scales else scales[0]
    rows = sequences[sequences["scale"] == main]
    return {
        "schema": 1,
        "preset": run.name,
        "fingerprint": run.fingerprint,
        "dataset": dataset.name,
        "dataset_digest": dataset.digest,
        "split": settings.DATA.VAL_SPLIT,
        "blur_dir": dataset.blur_dir,
        "use_spike": settings.MODEL.USE_SPIKE,
        "bins": dataset.bins,
        "tile": settings.TEST.TILE.model_dump(mode="json"),
        "sequences": len(rows),
        "frames": int(rows["frames"].sum()),
        "scale": main,
        "metrics": overall_means(sequences, main, missing),
        "other_scales": {
            f"{scale:g}": overall_means(sequences, scale, missing)
            for scale in scales
            if scale != main
        },
        "definitions": {name: DEFINITIONS[name] for name in settings.TEST.METRICS},
    }


def write_summary_page(path: Path, sequences: pd.DataFrame, summary: Mapping[str, Any]) -> None:
    """The means as a page: one row per sequence, the mean over sequences last.

    Args:
        path: where to write.
        sequences: means per sequence and scale.
        summary: from :func:`summarize`.
    """
    main = sequences[sequences["scale"] == summary["scale"]].drop(columns="scale")
    figures = [name for name in main.columns if name not in ("sequence", "frames")]
    mean = {"sequence": "mean over sequences", "frames": summary["frames"]}
    mean |= {name: main[name].mean() for name in figures}
    frame = pd.concat([main, pd.DataFrame([mean])], ignore_index=True)
    headers = {name: _header(name) for name in figures}
    formats = {headers[name]: ".2f" if name.startswith("psnr") else ".4f" for name in figures}
    definitions = " ".join(f"{name}: {text}." for name, text in summary["definitions"].items())
    missing = " ".join(
        f"No {name}: {entry['reason']}."
        for name, entry in summary["metrics"].items()
        if "reason" in entry
    )
    note = (
        f"{summary['frames']} frames of split '{summary['split']}' of {summary['dataset']}, blurry "
        f"frames from '{summary['blur_dir']}'. {definitions} {missing}"
    )
    last = frozenset({len(frame) - 1})
    table = Table(frame.rename(columns=headers), formats=formats, strong_rows=last)
    write_page(path, f"Results of preset {summary['preset']}", note.strip(), [table])


def _header(name: str) -> str:
    return f"{name.removesuffix(BLURRY)} {'blurry' if name.endswith(BLURRY) else 'restored'}"
