from __future__ import annotations

from types import SimpleNamespace

from vrtspike.cpus import available_cpus
from vrtspike.watching.workflow import benchmarks_before, provide_cores, typed_command


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
