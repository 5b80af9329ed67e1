"""The page of a folder of restored frames: pictures to compare, curves and doubts, offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vrtspike.io.files import atomic_write_text, finite_or_null
from vrtspike.io.images import read_picture, to_8_bit
from vrtspike.reporting.error_maps import error_colors
from vrtspike.reporting.offline_page import OfflinePage
from vrtspike.reporting.page_data import Video
from vrtspike.restoration.folder.frame_metrics import measure_frame
from vrtspike.restoration.folder.opened_request import OpenedRequest, RestoredClip
from vrtspike.restoration.folder.record import PAGE, SIDE_BY_SIDE, VIDEO, RestoreRecord, record_page
from vrtspike.restoration.folder.restored_folder import RestoredFolder
from vrtspike.restoration.inputs.clip_frames import require_size, sequence_name
from vrtspike.restoration.page.compared_frames import ComparedFrames, read_compared
from vrtspike.restoration.page.contents import (
    TASK,
    ModelOnPage,
    frame_doubts,
    headline,
    model_contents,
)
from vrtspike.restoration.page.frame_pictures import (
    EMBEDDED_BYTES,
    choose_frames,
    write_page_pictures,
)
from vrtspike.restoration.page.gallery import GALLERY
from vrtspike.system.progress_bar import OpenProgress

PAGE_BYTES = 29_000_000
"""Size of the page with its pictures; with the names of files it stays below 30 MB."""

SCRIPTS = (
    "dom.js",
    "tables.js",
    "viewer.js",
    "gallery.js",
    "charts.js",
    "saving.js",
    "restored.js",
)
SECTIONS = {"pictures": "Pictures", "curves": "Metrics", "origin": "Origin"}
ORDERS = ("in doubt first", "in time", "worst first", "best first")

_VIDEOS = {VIDEO: "restored", SIDE_BY_SIDE: "blurry, restored and, if there is one, sharp"}


def add_page(
    opened: OpenedRequest,
    result: RestoredFolder,
    compared: Path | None = None,
    *,
    open_progress: OpenProgress,
) -> RestoredFolder:
    """Write the page of a restored folder if the request has one, and return the new result.

    Args:
        opened: request and inputs.
        result: the finished restoration.
        compared: folder of frames of another model, which stand beside these.
        open_progress: opens the progress of measuring these.

    Raises:
        DataError: if a frame is missing, or one to compare with has another size.
    """
    if not opened.request.page:
        return result
    frames = None
    if compared is not None:
        frames = read_compared(compared, opened.source.names, opened.source.size)
    return replace(
        result, record=write_folder_page(opened, result.record, frames, open_progress=open_progress)
    )


def write_folder_page(
    opened: OpenedRequest,
    record: RestoreRecord,
    compared: ComparedFrames | None = None,
    *,
    open_progress: OpenProgress,
    page_bytes: int = PAGE_BYTES,
    embedded_bytes: int = EMBEDDED_BYTES,
) -> RestoreRecord:
    """Write the page of a restored folder from its frames and its record.

    The page contains its pictures if they are small; larger ones are files beside it. Equal frames
    and records give equal pages. The page of an earlier call is removed before its pictures are
    replaced, so that a page is never beside pictures of another.

    Args:
        opened: request and inputs.
        record: contents of ``restore.json``, of a finished restoration.
        compared: frames of another model, if any.
        open_progress: opens the progress of measuring these.
        page_bytes: size limit of the page with its pictures.
        embedded_bytes: size of all pictures up to which the page contains them.

    Returns:
        the record, which names the page and its pictures if these are files.

    Raises:
        DataError: if a frame is missing, or one to compare with has another size.
    """
    output = opened.request.output
    clip = opened.restored_clip(with_spikes=not record["doubts"])
    models = [_model(clip, record)]
    if compared is not None:
        models.append(_compared_model(clip, compared, models[0].label, record, open_progress))
    page_file = output / PAGE
    page_file.unlink(missing_ok=True)
    name = sequence_name(Path(record["paths"]["input"]))
    page = OfflinePage(headline(models, name, record), SECTIONS, SCRIPTS, has_files=True)
    doubtful = {number for model in models for number in model.doubtful}
    frames = choose_frames(len(clip.files), doubtful)
    nothing = {number: dict[str, str]() for number in frames}
    runs = [model_contents(model, name, nothing) for model in models]
    data = _data(models, record, compared, runs)
    pictures_bytes = page_bytes - len(page.render(data).encode())
    # Names of files are in the page, too.
    budget = pictures_bytes - 400 * len(frames) * len(models)
    clips = [model.clip for model in models]
    data["pictures"], pictures = write_page_pictures(clips, frames, budget, output, embedded_bytes)
    data["runs"] = [
        model_contents(model, name, {n: kinds[index] for n, kinds in pictures.items()})
        for index, model in enumerate(models)
    ]
    data["runs"][0]["evaluation"]["videos"] = _videos(output, record)
    atomic_write_text(page_file, page.render(data))
    return record_page(output, record)


def _model(clip: RestoredClip, record: RestoreRecord) -> ModelOnPage:
    """Return the results of the model of the record."""
    metrics = record["frames"]
    doubts = frame_doubts(
        metrics, misfits=record["doubtful"], kept=record["verdicts"]["kept blurry"]
    )
    return ModelOnPage(record["model"]["name"], clip, metrics, doubts)


def _compared_model(
    clip: RestoredClip,
    compared: ComparedFrames,
    other_label: str,
    record: RestoreRecord,
    open_progress: OpenProgress,
) -> ModelOnPage:
    """Measure frames of another model as those of the record were measured."""
    measured = replace(clip, files=compared.files)
    metrics = []
    with open_progress("metrics to compare with") as show:
        for index, name in enumerate(clip.source.names):
            restored = to_8_bit(read_picture(compared.files[index]).rgb)
            require_size(str(compared.files[index]), restored, clip.source.size)
            truth = None if clip.sharp is None else clip.sharp.frame(index)
            blur = clip.source.frames.frame(index)
            values = finite_or_null(measure_frame(measured, index, blur, restored, truth, {}))
            metrics.append({"frame": name, **values})
            show(index + 1, len(compared.files))
    label = compared.label
    if label == other_label:
        label = f"{label} (compared)"
    doubts = frame_doubts(metrics, misfits=record["doubtful"])
    return ModelOnPage(label, measured, metrics, doubts)


def _data(
    models: Sequence[ModelOnPage],
    record: RestoreRecord,
    compared: ComparedFrames | None,
    runs: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return the data of the page; facts on its pictures are still empty."""
    paths = record["paths"]
    origin = [
        ("model", f"{record['model']['name']}, {record['model']['fingerprint']}"),
        ("weights (SHA-256)", record["model"]["weights"]),
        ("blurry frames", paths["input"]),
        ("spikes", paths["spikes"] or record["spikes"]["from"]),
        ("sharp frames", paths["sharp"] or "none"),
        ("precision", record["precision"]),
    ]
    if compared is not None:
        origin.append((f"compared with {models[1].label}", compared.origin))
    return {
        "best": models[0].label,
        "frames": list(models[0].clip.source.names),
        "origin": [*origin, *(("doubt", message) for message in record["doubts"])],
        "orders": ORDERS,
        "galleries": {TASK: GALLERY},
        "colours": error_colors(),
        "words": {
            "model": "Model",
            "videos": "Videos",
            "left_out": "; frames in doubt were taken first",
            "no_metrics": "No metrics: these frames have neither recorded spikes that fit them "
            "nor sharp frames to compare with (--sharp).",
        },
        "pictures": {"form": "", "left_out": 0, "folder": None},
        "runs": runs,
    }


def _videos(output: Path, record: RestoreRecord) -> list[Video]:
    """Return the videos that were written beside the page."""
    videos: list[Video] = []
    for name, label in _VIDEOS.items():
        path = output / name
        if name in record["written"] and path.is_file():
            size = round(path.stat().st_size / 1e6, 2)
            videos.append(
                {"label": label, "data": None, "link": name, "megabytes": size, "is_played": True}
            )
    return videos
