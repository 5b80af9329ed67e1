"""The page: what was read, put into one HTML file that needs no network."""

from __future__ import annotations

import base64
import dataclasses
import functools
import gzip
import html
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from vrtspike.files import atomic_write_text
from vrtspike.reporting.alignment import COLUMNS, Alignment, read_alignment
from vrtspike.reporting.evaluations import Example
from vrtspike.reporting.performance import SECTION_COLUMNS
from vrtspike.reporting.pictures import (
    ERROR_TOP,
    FORMS,
    Pictures,
    encode_examples,
    error_colours,
)
from vrtspike.reporting.runs import ReportedRun, read_run
from vrtspike.reporting.verdict import Verdict, verdict

PAGE_BYTES = 19_000_000
"""What a page may weigh, so that it stays below 20 MB."""

VIDEO_BYTES = 2_000_000
ALL_VIDEO_BYTES = 6_000_000
"""Videos up to the first size are put into the page, up to the second all together; the others
are linked."""

EXAMPLE_BYTES = 900
"""What the names of an example's pictures and the elements they stand in take, besides these."""

SCRIPTS = ("dom.js", "tables.js", "viewer.js", "charts.js", "page.js")
STYLES = ("page.css",)


def write_report_page(
    results: Path,
    presets: Sequence[str],
    preset_folder: Path,
    output: Path,
    page_bytes: int = PAGE_BYTES,
) -> Verdict:
    """Write the page on some runs.

    Args:
        results: folder of all results.
        presets: names of the runs, at least one.
        preset_folder: where the presets stand.
        output: the page.
        page_bytes: what it may weigh; pictures are made smaller until they fit.

    Returns:
        what the page says first.

    Raises:
        RunError: if a run is not there, or a file of its results is damaged.
        DataError: if a picture cannot be read.
    """
    runs = [read_run(results, name, preset_folder) for name in presets]
    datasets = dict.fromkeys(run.dataset for run in runs)
    tables = (read_alignment(results / "data" / name / "alignment.csv") for name in datasets)
    alignments = [table for table in tables if table is not None]
    said, embedded = verdict(runs), {**embedded_videos(runs), **embedded_figures(runs)}
    examples = [example.files for run in runs for example in _examples(run)]
    nothing = Pictures(FORMS[0], (), ())
    empty = _page(said, _data(runs, alignments, embedded, output, nothing), {}, embedded)
    room = page_bytes - len(empty.encode()) - EXAMPLE_BYTES * len(examples)
    pictures = encode_examples(examples, room)
    data = _data(runs, alignments, embedded, output, pictures)
    atomic_write_text(output, _page(said, data, _picture_texts(pictures), embedded))
    return said


def embedded_videos(runs: Sequence[ReportedRun]) -> dict[Path, str]:
    """The videos that go into the page, by the name of their element; small ones first."""
    videos = [video for run in runs for video in _videos(run).values()]
    found: dict[Path, str] = {}
    room = ALL_VIDEO_BYTES
    for video in sorted(videos, key=lambda path: (path.stat().st_size, path)):
        size = video.stat().st_size
        if size <= min(VIDEO_BYTES, room):
            found[video] = f"video-{len(found)}"
            room -= size
    return found


def embedded_figures(runs: Sequence[ReportedRun]) -> dict[Path, str]:
    """The figures of evaluations, by the name of their element."""
    figures = [path for run in runs if run.evaluated for path in run.evaluated.figures.values()]
    return {path: f"figure-{number}" for number, path in enumerate(figures)}


def script_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """JSON that stands in a script element, whatever its texts hold.

    >>> script_json({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _examples(run: ReportedRun) -> tuple[Example, ...]:
    return run.evaluated.examples if run.evaluated else ()


def _videos(run: ReportedRun) -> Mapping[str, Path]:
    return run.evaluated.videos if run.evaluated else {}


def _data(
    runs: Sequence[ReportedRun],
    alignments: Sequence[Alignment],
    embedded: Mapping[Path, str],
    output: Path,
    pictures: Pictures,
) -> dict[str, Any]:
    """What the page's programs read; pictures stand beside it, under the names given here."""
    kept = dict(zip(pictures.kept, pictures.of, strict=True))
    counts = [len(_examples(run)) for run in runs]
    starts = [sum(counts[:number]) for number in range(len(runs))]
    return {
        "runs": [
            _run(run, start, kept, embedded, output)
            for run, start in zip(runs, starts, strict=True)
        ],
        "alignments": [dataclasses.asdict(table) for table in alignments],
        "columns": {"alignment": COLUMNS, "sections": SECTION_COLUMNS},
        "error": {"top": ERROR_TOP, "colours": error_colours()},
        "pictures": {"form": str(pictures.form), "left_out": sum(counts) - len(kept)},
    }


def _run(
    run: ReportedRun,
    start: int,
    kept: Mapping[int, Mapping[str, str]],
    embedded: Mapping[Path, str],
    output: Path,
) -> dict[str, Any]:
    """One run; ``start`` is the number of its first example."""
    contents = dataclasses.asdict(dataclasses.replace(run, evaluation="", performance=""))
    if isinstance(run.performance, str):
        contents["performance"] = {"reason": run.performance}
    else:
        contents["performance"] = dataclasses.asdict(run.performance)
    if isinstance(run.evaluation, str):
        contents["evaluation"] = {"reason": run.evaluation}
        return contents
    evaluation = dataclasses.replace(run.evaluation, examples=(), videos={}, figures={})
    contents["evaluation"] = dataclasses.asdict(evaluation) | {
        "examples": [
            _example(example, f"e{number}", kept[number])
            for number, example in enumerate(run.evaluation.examples, start)
            if number in kept
        ],
        "videos": [
            _video(label, path, embedded, output) for label, path in run.evaluation.videos.items()
        ],
        "figures": [
            {"caption": caption, "id": embedded[path]}
            for caption, path in run.evaluation.figures.items()
        ],
    }
    return contents


def _example(example: Example, name: str, pictures: Mapping[str, str]) -> dict[str, Any]:
    entry = dataclasses.asdict(dataclasses.replace(example, files={}))
    del entry["files"]
    return entry | {"id": name, "pictures": sorted(pictures)}


def _video(label: str, path: Path, embedded: Mapping[Path, str], output: Path) -> dict[str, Any]:
    link = os.path.relpath(path.resolve(), output.resolve().parent)
    return {
        "label": label,
        "id": embedded.get(path),
        "link": Path(link).as_posix(),
        "megabytes": round(path.stat().st_size / 1e6, 2),
    }


def _picture_texts(pictures: Pictures) -> dict[str, str]:
    return {
        f"e{number}-{what}": text
        for number, texts in zip(pictures.kept, pictures.of, strict=True)
        for what, text in texts.items()
    }


def _page(
    said: Verdict,
    data: Mapping[str, Any],
    pictures: Mapping[str, str],
    videos: Mapping[Path, str],
) -> str:
    def joined(names: Iterable[str]) -> str:
        return "\n".join(_asset(name) for name in names)

    stored = dict(pictures)
    for path, name in videos.items():
        stored[name] = base64.b64encode(path.read_bytes()).decode()
    stored["plotly"] = _packed_plotly()
    parts = {
        "title": html.escape(said.text),
        "style": joined(STYLES),
        "verdict": "".join(_piece(words.text, words.strong) for words in said.sentence),
        "facts": "".join(f"<li>{html.escape(fact)}</li>" for fact in said.facts),
        "data": script_json(data),
        "stored": "\n".join(
            f'<script type="text/plain" id="{name}">{text}</script>'
            for name, text in stored.items()
        ),
        "script": joined(SCRIPTS),
    }
    # One pass: what is put in is not looked at again, whatever it holds.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


@functools.cache
def _packed_plotly() -> str:
    """The library for curves, a quarter as large packed; unpacked when a curve comes into view."""
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


def _piece(text: str, strong: bool) -> str:
    escaped = html.escape(text)
    return f"<strong>{escaped}</strong>" if strong else escaped


def _asset(name: str) -> str:
    return resources.files("vrtspike.reporting").joinpath("assets", name).read_text("utf-8")
