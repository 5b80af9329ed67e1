"""The page of a folder of restored frames."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.restoration.folder_runs import NAMES, restore
from vrtspike.reporting.offline_page import asset
from vrtspike.restoration.folder.opened_request import open_request
from vrtspike.restoration.folder.record import record_page
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.restoration.page.compared_frames import read_compared
from vrtspike.restoration.page.frame_pictures import EMBEDDED_BYTES
from vrtspike.restoration.page.writing import PAGE_BYTES, SCRIPTS, write_folder_page
from vrtspike.restoration.trained_model import TrainedModel


def write(
    model: TrainedModel,
    job: RestoreRequest,
    record: dict[str, Any],
    compared=None,
    page_bytes=PAGE_BYTES,
    embedded_bytes=0,
) -> dict[str, Any]:
    """The data of a page that is written, with pictures in files unless a size is given."""
    progress = contextlib.nullcontext(lambda *done: None)
    write_folder_page(
        open_request(model.run, job), record, compared,
        open_progress=lambda title: progress, page_bytes=page_bytes, embedded_bytes=embedded_bytes,
    )  # fmt: skip
    page = (job.output / "index.html").read_text("utf-8")
    (data,) = re.findall(r'id="report">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a page."""
    paths = [folder / "index.html", *(folder / "page").iterdir()]
    return {path.name: path.read_bytes() for path in paths}


@pytest.fixture
def result(whole, tmp_path) -> tuple[RestoreRequest, dict[str, Any]]:
    """A copy of a restored folder, and its record."""
    job, record = whole
    shutil.copytree(job.output, tmp_path / "out")
    return replace(job, output=tmp_path / "out"), record


def test_the_page_shows_the_record_and_the_frames(model, result):
    job, record = result
    data = write(model, job, record)
    (run,) = data["runs"]
    assert data["frames"] == NAMES
    assert set(run["frame_values"]) == {
        f"{name}{column}"
        for name in ("psnr", "ssim", "agreement", "reblur")
        for column in ("", "_blur")
    }
    for name, values in run["frame_values"].items():
        assert values == [frame[name] for frame in record["frames"]]
    assert data["orders"][0] == "in doubt first"
    examples = run["evaluation"]["examples"]
    assert {example["frame"] for example in examples} == set(NAMES)
    assert [video["link"] for video in run["evaluation"]["videos"]] == [
        "restored.mp4", "side_by_side.mp4",
    ]  # fmt: skip
    shown = {name for example in examples for name in example["pictures"].values()}
    assert shown == {path.name for path in (job.output / "page").iterdir()}
    assert data["pictures"]["left_out"] == 0
    # Equal frames and records give an equal page, however long they took.
    first = contents(job.output)
    write(model, job, record | {"seconds_per_frame": 9.0})
    assert contents(job.output) == first


KEYED = {"metrics", "frame_values", "galleries", "pictures"}
"""Mappings by column, kind or task; a list, or the facts on all pictures, is none."""


def fields_of(value: object) -> set[str]:
    """Names of the fields in JSON values, at any depth."""
    if isinstance(value, list):
        return set().union(*map(fields_of, value))
    if not isinstance(value, dict):
        return set()
    names = set(value)
    for name, inner in value.items():
        is_keyed = name in KEYED and isinstance(inner, dict) and "form" not in inner
        names |= fields_of(list(inner.values()) if is_keyed else inner)
    return names


def is_read(name: str, script: str) -> bool:
    """Whether a script reads a name of an object: by a dot or by destructuring."""
    return re.search(rf"\.{name}\b|[{{,]\s*{name}\s*[,:}}]", script) is not None


def test_the_data_are_what_the_scripts_read(model, result):
    data = write(model, *result)
    fields = fields_of(data)
    assert {"runs", "doubtful", "megabytes", "is_beside", "no_metrics", "left_out"} <= fields
    script = "\n".join(map(asset, SCRIPTS))
    assert {name for name in fields if not is_read(name, script)} == set()
    # Scripts that read data of this page only where it has them; others also serve other pages.
    script = "\n".join(map(asset, ("dom.js", "viewer.js", "gallery.js", "restored.js")))
    for place, values in (
        ("report", data), ("report.words", data["words"]), ("report.pictures", data["pictures"]),
    ):  # fmt: skip
        read = set(re.findall(rf"\b{re.escape(place)}\.(\w+)", script))
        assert len(read) >= 2
        assert read <= values.keys()


def test_frames_in_doubt_are_marked(model, result):
    job, record = result
    frames = [dict(frame) for frame in record["frames"]]
    for frame in frames:
        for name in ("psnr", "reblur", "unseen"):
            frame.pop(name, None)
    frames[3] |= {"reblur_blur": 30.0, "reblur": 20.0}
    verdicts = {"kept blurry": [NAMES[1]], "reblur": [], "unseen": []}
    data = write(model, job, record | {"frames": frames, "verdicts": verdicts})
    (run,) = data["runs"]
    assert run["doubtful"] == [1, 3]
    marked = {e["frame"] for e in run["evaluation"]["examples"] if e["doubts"]}
    assert marked == {NAMES[1], NAMES[3]}


def test_another_model_stands_beside_the_first(small_run, model, result, tmp_path):
    job, record = result
    copy = shutil.copytree(small_run.raw / "test/b/sharp", tmp_path / "sharp frames")
    data = write(model, job, record, read_compared(copy, NAMES, (48, 64)))
    first, second = data["runs"]
    assert (first["name"], second["name"]) == (record["model"]["name"], "sharp frames")
    # Equal to the sharp frames.
    assert second["frame_values"]["ssim"] == pytest.approx([1] * 5)
    assert second["frame_values"]["psnr_blur"] == first["frame_values"]["psnr_blur"]
    for one, other in zip(*(
        sorted(run["evaluation"]["examples"], key=lambda example: example["time"])
        for run in data["runs"]
    ), strict=True):  # fmt: skip
        assert one["pictures"]["blurry"] == other["pictures"]["blurry"]
        assert one["pictures"]["restored"] != other["pictures"]["restored"]
    assert ["compared with sharp frames", str(copy)] in data["origin"]
    # Frames of the same model have another name.
    again = write(model, job, record, read_compared(job.output, NAMES, (48, 64)))
    assert again["runs"][1]["name"] == f"{record['model']['name']} (compared)"
    assert again["runs"][1]["frame_values"] == again["runs"][0]["frame_values"]


def test_the_page_and_its_pictures_stay_below_the_limit(model, result):
    job, record = result
    write(model, job, record)
    whole = sum(map(len, contents(job.output).values()))
    # Names of files have some room.
    limit = whole - 1_000
    data = write(model, job, record, page_bytes=limit)
    assert sum(map(len, contents(job.output).values())) <= limit
    assert data["pictures"]["form"] != "WebP of quality 80, at most 1280 pixels wide or high"


def test_a_page_with_small_pictures_is_one_file_and_the_record_says_so(model, result):
    job, record = result
    record = record | {"written": [*record["written"], "index.html", "page"]}
    write(model, job, record)
    assert record_page(job.output, record) == record
    data = write(model, job, record, embedded_bytes=EMBEDDED_BYTES)
    assert data["pictures"]["folder"] is None
    assert not (job.output / "page").exists()
    (run,) = data["runs"]
    for example in run["evaluation"]["examples"]:
        restored = base64.b64decode(example["pictures"]["restored"])
        assert restored.startswith(b"RIFF")
    assert all(video["is_played"] for video in run["evaluation"]["videos"])
    changed = record_page(job.output, record)
    assert changed["written"] == [name for name in record["written"] if name != "page"]
    assert json.loads((job.output / "restore.json").read_text()) == changed


def test_the_record_names_the_page_and_overwriting_removes_it(model, job):
    job = replace(job, page=True)
    record = restore(model, job)
    assert {"index.html", "page"} <= set(record["written"])
    write(model, job, record)
    (job.output / "page/mine.txt").touch()
    notes: list[str] = []
    restore(model, replace(job, page=False, overwrite=True), notes.append)
    assert {path.name for path in job.output.iterdir()} == {"restored", "restore.json", "page"}
    assert [path.name for path in (job.output / "page").iterdir()] == ["mine.txt"]
    assert "\n  - page\n" in notes[0]
