"""The report page: one HTML file that works offline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from vrtspike.analysis.intervals import LEVEL
from vrtspike.analysis.quality_tables import TEST_FRAMES
from vrtspike.io.files import atomic_write_text
from vrtspike.io.images import read_rgb
from vrtspike.reporting.measurements import read_alignment
from vrtspike.reporting.offline_page import OfflinePage, Verdict
from vrtspike.reporting.pictures import (
    ERROR_TOP,
    LEVELS,
    encode,
    encode_examples,
    encode_within,
    error_colours,
)
from vrtspike.reporting.run_quality import Contents, in_base64
from vrtspike.reporting.runs import read_run

ABOUT_SPIKES = (
    "A spike camera takes no frames: each of its pixels gathers light and sends a spike whenever "
    "it has enough, up to tens of thousands of times a second. Recorded beside a camera's blurry "
    "frame, spikes tell what moved while its shutter was open."
)


def verdict(runs: Sequence[Contents]) -> Verdict:
    """Write the verdict on the best of the evaluated runs.

    The best run has the best restored figure of the first evaluation's main metric, among the runs
    with the same test frames, because figures of different frames cannot be compared.

    Args:
        runs: runs from :func:`vrtspike.reporting.runs.read_run`, at least one.
    """
    pairs = [(run, leading_metric(run["evaluation"])) for run in runs]
    evaluated = [(run, metric) for run, metric in pairs if metric is not None]
    if not evaluated:
        return _verdict_without_figures(runs)

    def compared_by(run: Contents, metric: Contents) -> list[object]:
        return [metric["name"], *(run["evaluation"][name] for name in TEST_FRAMES)]

    first = evaluated[0]
    comparable = [pair for pair in evaluated if compared_by(*pair) == compared_by(*first)]
    best = max if first[1]["larger_is_better"] else min
    run, metric = best(comparable, key=lambda pair: pair[1]["restored"])
    evaluation = run["evaluation"]
    origin = dict(run["origin"]["facts"])
    facts = [
        *evaluation["warnings"],
        f"{metric['title']}, mean over the sequences ({evaluation['sequences']}) of split "
        f"{evaluation['split']}",
    ]
    if metric["gain_interval"] is not None:
        low, high = (f"{end:+.{metric['decimals']}f}" for end in metric["gain_interval"])
        ends = f"{low} to {high} {metric['unit']}".rstrip().replace("-", "−")
        facts.append(f"{100 * LEVEL:.0f} % interval of the gain, over sequences: {ends}")
    if run["training_seconds"] is not None:
        facts.append(f"trained: {origin['training']}, {origin['machine']}")
    names = [member["name"] for member, _ in comparable]
    others = [member["name"] for member, _ in evaluated if member["name"] not in names]
    if others:
        facts.append(f"not compared, of other test frames or metrics: {', '.join(others)}")
    return Verdict(_sentence(run, metric, len(comparable)), facts, run["name"])


def _verdict_without_figures(runs: Sequence[Contents]) -> Verdict:
    """Return the verdict on runs without figures of test frames, with the reasons."""
    trained = ", ".join(f"{run['name']}, at {run['origin']['commit']}" for run in runs)
    default = "the evaluation has no finite figure"
    reasons = [f"{run['name']}: {run['evaluation'].get('reason', default)}" for run in runs]
    return Verdict(f"Trained, without figures of test frames: {trained}.", reasons)


def leading_metric(evaluation: Contents) -> Contents | None:
    """Return the metric of the page's first sentence: the first one with finite figures."""
    metrics: list[Contents] = evaluation.get("metrics", [])
    for metric in metrics:
        if None not in (metric["blurry"], metric["restored"], metric["gain"]):
            return metric
    return None


def _sentence(run: Contents, metric: Contents, compared: int) -> str:
    """Return the main result of the best run in a sentence, with the number of compared runs."""

    def bold(value: float) -> str:
        text = f"{value:.{metric['decimals']}f} {metric['unit']}"
        return f"**{text.strip()}**"

    evaluation = run["evaluation"]
    gain = metric["gain"]
    best = f", best of {compared}," if compared > 1 else ""
    change = f"a {'gain' if gain >= 0 else 'loss'} of {bold(abs(gain))}"
    if bold(abs(gain)) == bold(0.0):
        change = "no change"
    # The unit dB implies PSNR of RGB; other metrics are named.
    title = "" if metric["title"] == "PSNR" else f"{metric['title']} "
    lower = "" if metric["larger_is_better"] else ", lower is better"
    return (
        f"Preset {run['name']}{best} takes {evaluation['frames']} frames of data set "
        f"{evaluation['dataset']} from {title}{bold(metric['blurry'])} "
        f"({metric['before']}) to {bold(metric['restored'])} ({metric['after']}{lower}): "
        f"{change}, at {run['origin']['commit']}."
    )


PAGE_BYTES = 19_000_000
"""Size to which pictures may fill a page; with their names it stays below 20 MB."""

VIDEO_BYTES = 2_000_000
ALL_VIDEO_BYTES = 6_000_000
"""Videos up to the first size are embedded in the page, up to the second size in total; others are
linked."""

VALIDATION_BYTES = 3_000_000
"""Size to which pictures of validations may fill a page."""

SCRIPTS = (
    "dom.js",
    "tables.js",
    "viewer.js",
    "charts.js",
    "saving.js",
    "validations.js",
    "page.js",
)

SECTIONS = {
    "pictures": "Pictures",
    "figures": "Figures",
    "training": "Training",
    "cost": "Time and memory",
    "data": "Data",
    "findings": "Findings",
    "origin": "Origin",
}
"""Titles of the sections by their names in the page."""

ORDERS = ("typical first", "worst first", "best first")
"""Orders of the frames that a reader may choose; the first is that of a new page."""


def write_report_page(
    results: Path,
    presets: Sequence[str],
    preset_folder: Path,
    output: Path,
    page_bytes: int = PAGE_BYTES,
) -> Verdict:
    """Write the report page on some runs.

    Args:
        results: folder of all results.
        presets: names of the runs, at least one.
        preset_folder: folder of the presets.
        output: the page.
        page_bytes: size limit; pictures are compressed until they fit.

    Returns:
        the beginning of the page.

    Raises:
        RunError: if a run is missing, or a file of its results is damaged.
        DataError: if a picture cannot be read.
    """
    runs = [read_run(results, name, preset_folder) for name in presets]
    datasets = dict.fromkeys(run["dataset"] for run in runs)
    tables = (read_alignment(results / "data" / name / "alignment.csv") for name in datasets)
    evaluations = [run["evaluation"] for run in runs]
    _embed_videos(_join(evaluations, "videos"), output)
    _embed_validations(runs)
    examples = _join(evaluations, "examples")
    files = [example.pop("files") for example in examples]
    headline = verdict(runs)
    data = {
        "best": headline.preset,
        "alignments": [table for table in tables if table is not None],
        "runs": runs,
        "maps": {"tops": {"error": ERROR_TOP}, "colours": error_colours()},
        "words": {
            "model": "Preset",
            "videos": "Videos: blurry, restored, sharp",
            "left_out": " from worst to best",
        },
        "orders": ORDERS,
    }
    intro = "" if all(run["uses_spikes"] is None for run in runs) else ABOUT_SPIKES
    page = OfflinePage(headline, SECTIONS, SCRIPTS, intro)
    budget = page_bytes - len(page.render(data).encode())
    form, pictures = encode_examples(files, budget)
    for number, example in enumerate(examples):
        example["pictures"] = pictures.get(number)
    for evaluation in evaluations:
        examples_of_run = evaluation.get("examples", ())
        evaluation["examples"] = [example for example in examples_of_run if example["pictures"]]
    data["pictures"] = {"form": form, "left_out": len(examples) - len(pictures), "folder": None}
    atomic_write_text(output, page.render(data))
    return headline


def _join(evaluations: Sequence[Contents], name: str) -> list[Contents]:
    """Return the entries of a list in all evaluations."""
    return [entry for evaluation in evaluations for entry in evaluation.get(name, ())]


def _embed_validations(runs: Sequence[Contents]) -> None:
    """Put the pictures of validations into the data of a page."""
    pictures = _join(runs, "validation_pictures")
    files = [picture.pop("file") for picture in pictures]

    def encode_picture(index: int, side: int, quality: int) -> dict[str, str]:
        return {"data": encode(read_rgb(files[index]), side, quality)}

    _, encoded = encode_within(encode_picture, len(files), VALIDATION_BYTES, LEVELS[1:])
    for number, picture in enumerate(pictures):
        picture |= encoded.get(number, {"data": None})
    for run in runs:
        shown = [picture for picture in run["validation_pictures"] if picture["data"] is not None]
        run["validation_pictures"] = shown


def _embed_videos(videos: Sequence[Contents], output: Path) -> None:
    """Put small videos into the data of a page; large ones are only linked."""
    left = ALL_VIDEO_BYTES
    for video in videos:
        path = video.pop("file")
        size = path.stat().st_size
        link = os.path.relpath(path.resolve(), output.resolve().parent)
        video |= {"data": None, "link": Path(link).as_posix(), "megabytes": round(size / 1e6, 2)}
        if size <= min(VIDEO_BYTES, left):
            video["data"] = in_base64(path)
            left -= size
