from __future__ import annotations

from vrtspike.watching.ending import continue_line, results_lines, unwritable


def test_of_what_was_asked_for_the_summary_and_the_best_report(tmp_path):
    names = ["summary.txt", "index.html", "report.html"]
    summary, page, report = (str(tmp_path / name) for name in names)
    for name in names:
        (tmp_path / name).write_text(f"{name}\n")
    pages = [page, report]
    everything = {summary, page, report}
    assert results_lines(everything, [summary], pages, "done") == [
        "summary.txt", "done", f"report: {page}",
    ]  # fmt: skip
    assert results_lines({report, "weights"}, [summary], pages) == [f"report: {report}"]
    (tmp_path / "index.html").unlink()
    assert results_lines(everything, [summary], pages)[-1] == f"report: {report}"
    assert results_lines({"weights"}, [summary], pages, "done") == ["done"]


def test_the_command_can_be_pasted():
    assert continue_line(["snakemake", "--config", "SET=[a, b]"]) == (
        "continue: snakemake --config 'SET=[a, b]'"
    )


def test_a_place_that_cannot_be_written_is_named_with_what_to_do(tmp_path):
    told = unwritable(str(tmp_path / "results/train/demo/run.json"))
    assert told.startswith(f"{tmp_path}/results/train/demo/run.json: Permission denied; mend ")
    assert "set RESULTS (config/config.yaml)" in told
    assert unwritable("results", "Input/output error").startswith("results: Input/output error; ")
