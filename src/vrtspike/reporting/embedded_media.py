"""Pictures and videos that the report page contains."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from vrtspike.analysis.evaluation_files import EXAMPLES, VIDEOS, evaluation_folder
from vrtspike.io.images import read_rgb
from vrtspike.reporting.evaluation_data import in_base64, read_examples
from vrtspike.reporting.page_data import EvaluationOnPage, PictureFacts, RunOnPage, Video
from vrtspike.reporting.picture_encoding import LEVELS, encode, encode_examples, encode_within
from vrtspike.reporting.task_report import task_report
from vrtspike.runs.validation_pictures import find_pictures

VIDEO_BYTES = 2_000_000
ALL_VIDEO_BYTES = 6_000_000
"""Maximum sizes of an embedded video, and of all of them; other videos are linked."""

VALIDATION_BYTES = 3_000_000
"""Page size up to which validation pictures are added."""


def evaluation_of(run: RunOnPage) -> EvaluationOnPage | None:
    """Return the evaluation of a run; None without one."""
    evaluation = run["evaluation"]
    return None if "reason" in evaluation else evaluation


def embed_examples(runs: Sequence[RunOnPage], results: Path, budget: int) -> PictureFacts:
    """Put pictures into the examples of runs; examples without pictures are left out.

    Args:
        runs: the runs, whose examples have no pictures.
        results: folder of all results.
        budget: characters of all pictures together.

    Returns:
        facts on the pictures.

    Raises:
        DataError: if a picture cannot be read.
    """
    examples = []
    pictures = []
    for run in runs:
        evaluation = evaluation_of(run)
        kinds = task_report(run["task"]).examples
        if evaluation is None or kinds is None:
            continue
        folder = evaluation_folder(results / "train" / run["name"]) / EXAMPLES
        examples += evaluation["examples"]
        for entry in read_examples(folder)["examples"]:
            files = {kind: folder / file for kind, file in entry["files"].items()}
            pictures.append((files, kinds))
    form, encoded = encode_examples(pictures, budget)
    for index, example in enumerate(examples):
        example["pictures"] = encoded.get(index, {})
    for run in runs:
        evaluation = evaluation_of(run)
        if evaluation is not None:
            kept = [example for example in evaluation["examples"] if example["pictures"]]
            evaluation["examples"] = kept
    return {"form": form, "left_out": len(examples) - len(encoded), "folder": None}


def embed_validation_pictures(runs: Sequence[RunOnPage], results: Path) -> None:
    """Put the pictures of validations into runs, up to a size.

    Args:
        runs: runs of the page; their pictures are filled in.
        results: folder of all results.

    Raises:
        DataError: if a picture cannot be read.
    """
    files: list[tuple[RunOnPage, int, str, Path]] = []
    for run in runs:
        for step, pictures in find_pictures(results / "train" / run["name"]).items():
            files += [(run, step, name, path) for name, path in pictures.items()]

    def encode_picture(index: int, side: int, quality: int) -> dict[str, str]:
        _, _, _, path = files[index]
        return {"webp": encode(read_rgb(path), side, quality)}

    _, encoded = encode_within(encode_picture, len(files), VALIDATION_BYTES, LEVELS[1:])
    for number, contents in sorted(encoded.items()):
        run, step, name, _ = files[number]
        run["validation_pictures"].append({"step": step, "name": name, "data": contents["webp"]})


def embed_videos(runs: Sequence[RunOnPage], results: Path, output: Path) -> None:
    """Put small videos into the evaluations of runs; large ones are only linked.

    Args:
        runs: runs of the page; their videos are filled in.
        results: folder of all results.
        output: path of the page, which links are relative to.
    """
    left = ALL_VIDEO_BYTES
    for run in runs:
        evaluation = evaluation_of(run)
        if evaluation is None:
            continue
        folder = evaluation_folder(results / "train" / run["name"])
        for path in sorted((folder / VIDEOS).glob("*.mp4")):
            video = _linked_video(path, output)
            size = path.stat().st_size
            if size <= min(VIDEO_BYTES, left):
                video["data"] = in_base64(path)
                left -= size
            evaluation["videos"].append(video)


def _linked_video(path: Path, output: Path) -> Video:
    """Return a video as a link from a page."""
    link = os.path.relpath(path.resolve(), output.resolve().parent)
    return {
        "label": path.stem,
        "data": None,
        "link": Path(link).as_posix(),
        "megabytes": round(path.stat().st_size / 1e6, 2),
        "is_played": False,
    }
