"""Benchmark files of the jobs of presets."""

from __future__ import annotations

from vrtspike.workflow.demos import benchmark_files


def test_files_of_jobs_of_presets_and_of_their_data_are_listed(tmp_path):
    files = ["demo_data.tsv", "train/demo.tsv", "survey/demo.tsv", "accept/demo/k8.tsv"]
    others = ["demo.tsv", "train/baseline.tsv", "train/light.tsv", "logs.txt"]
    second = ["train/light_demo.tsv", "light_demo.tsv"]
    for name in (*files, *others, *second):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    expected = [str(tmp_path / name) for name in files]
    assert benchmark_files(tmp_path, ["demo"]) == sorted(expected)
    expected += [str(tmp_path / name) for name in second]
    assert benchmark_files(tmp_path, ["demo", "light_demo"]) == sorted(expected)
