from __future__ import annotations

import io
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from vrtspike.cpus import available_cpus
from vrtspike.watching.turns import Turns
from vrtspike.watching.workflow import Watch, benchmarks_before, provide_cores, typed_command


class Job(SimpleNamespace):
    __hash__ = object.__hash__


def test_benchmarks_of_a_targets_own_jobs():
    """demo <- evaluate <- train <- data, demo <- data; another preset's training is none of it."""
    data, train, evaluate, demo, other = (
        Job(rule=SimpleNamespace(name=name), benchmark=f"b/{name}.tsv")
        for name in ("data", "train", "evaluate", "demo", "other")
    )
    evaluate.benchmark = None
    dependencies = {data: {}, train: {data: {"a"}}, evaluate: {train: {"b"}}, other: {data: {"a"}}}
    dependencies[demo] = {evaluate: {"c"}, data: {"a"}}
    dag = SimpleNamespace(jobs=[*dependencies], dependencies=dependencies)
    found = benchmarks_before(SimpleNamespace(dag=dag), "demo")
    assert found == ["b/data.tsv", "b/train.tsv"]


def test_what_was_typed(monkeypatch):
    monkeypatch.delenv("VRTSPIKE_COMMAND", raising=False)
    assert typed_command(["/bin/snakemake", "-c", "2"]) == ["snakemake", "-c", "2"]
    monkeypatch.setenv("VRTSPIKE_COMMAND", "make demo")
    assert typed_command(["/bin/snakemake", "-c", "2"]) == ["make", "demo"]


def workflow(cores: int | None, nodes: int | None, main: bool = True) -> SimpleNamespace:
    settings = SimpleNamespace(cores=cores, nodes=nodes)
    return SimpleNamespace(
        resource_settings=settings, global_resources={"_cores": cores}, is_main_process=main
    )


def test_all_cores_where_nobody_says_how_many():
    local = workflow(None, None)
    provide_cores(local)
    assert local.resource_settings.cores == available_cpus()
    assert local.global_resources == {"_cores": available_cpus()}
    # --cores, a cluster's --jobs, and jobs that plan for themselves stay as they are.
    for given in (workflow(3, None), workflow(None, 100), workflow(None, None, main=False)):
        before = given.resource_settings.cores
        provide_cores(given)
        assert given.resource_settings.cores == before == given.global_resources["_cores"]


@pytest.fixture
def due(tmp_path) -> list[str]:
    """Files that are still to be made; to be changed."""
    return [str(tmp_path / name) for name in ("a", "b")]


@pytest.fixture
def watch(tmp_path, due) -> Iterator[Watch]:
    """What watches a Snakemake that shows its messages on a stream."""
    logger = logging.getLogger("snakemake.logging")
    before = [*logger.handlers], [*logger.filters]
    default = logging.StreamHandler(io.StringIO())
    default.name = "DefaultStreamHandler"
    logger.addHandler(default)
    made = SimpleNamespace(output=[str(tmp_path / "made")], rule=SimpleNamespace(name="made"))

    def to_do() -> Iterator[SimpleNamespace]:
        return iter([SimpleNamespace(output=[*due], rule=SimpleNamespace(name="due"))])

    settings = dict.fromkeys(("verbose", "printshellcmds", "debug_dag", "dryrun", "quiet"))
    dag = SimpleNamespace(needrun_jobs=to_do, finished_jobs=[made], jobs=[made, *to_do()])
    snakemake = SimpleNamespace(
        is_main_process=True, output_settings=SimpleNamespace(**settings), dag=dag
    )
    found = Watch(snakemake, (), (), "summary.txt", (), tmp_path / "turns")
    yield found
    found.end(success=True)
    logger.handlers[:], logger.filters[:] = before


def planned(folder: Path) -> list[str]:
    """The files that a Snakemake tells the others that it makes."""
    (path,) = folder.glob("turns/*.plan")
    return [Path(file).name for file in json.loads(path.read_text())["files"]]


def test_others_are_told_what_is_still_to_be_made(watch, tmp_path, due):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    watch.begin()
    assert planned(tmp_path) == ["a", "b"]
    # Snakemake's own way to end is its business from now on.
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
    due.remove(str(tmp_path / "a"))
    record = logging.makeLogRecord({"event": "progress", "done": 1, "total": 2})
    watch.handler.handle(record)
    assert planned(tmp_path) == ["b"]
    watch.end(success=True)
    assert not [*tmp_path.glob("turns/*.plan")]


def test_who_has_waited_for_another_plans_anew(watch, tmp_path, due, monkeypatch):
    other = Turns(tmp_path / "turns")
    assert other.take(due[1:], print) is False
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        other.end()

    begun: list[object] = []
    monkeypatch.setattr(watch.handler, "say", say)
    monkeypatch.setattr(os, "execv", lambda *arguments: begun.extend(arguments))
    watch.begin()
    assert "waiting for another snakemake" in said[0]
    assert begun == [sys.executable, sys.orig_argv]


def test_results_that_cannot_be_written_are_told_before_the_first_job(watch, tmp_path):
    (tmp_path / "turns").write_text("no folder")
    with pytest.raises(SystemExit) as end:
        watch.begin()
    assert end.value.code == 2
    said = watch.handler._stream.getvalue()
    assert said.startswith(f"error: {tmp_path / 'turns'}: ")
    assert "set RESULTS (config/config.yaml)" in said
