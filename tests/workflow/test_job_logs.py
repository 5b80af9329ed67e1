"""The end of a failed job's log."""

from __future__ import annotations

import pytest

from vrtspike.workflow.job_logs import log_tail

OUTPUT = "\n".join(f"[rank0]: line {number}" for number in range(30))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("9 of 10\r10 of 10\n", ["10 of 10"]),
        (OUTPUT, [f"[rank0]: line {number}" for number in range(10, 30)]),
        ("error: old\nx\nerror: 2 faults\n- a\n- b\n", ["error: 2 faults", "- a", "- b"]),
        (f"{OUTPUT}\nerror (process 1): no\nfailed\n", ["error (process 1): no", "failed"]),
    ],
)
def test_the_end_of_a_log_starts_at_the_last_error(tmp_path, text, shown):
    log = tmp_path / "a.log"
    log.write_text(text)
    (tmp_path / "empty.log").touch()
    first, *lines = log_tail([str(tmp_path / "empty.log"), str(log)]).splitlines()
    assert first == f"the end of {log}:"
    assert lines == [f"    {line}" for line in shown]


def test_a_stopped_training_reports_its_saved_state(tmp_path):
    log = tmp_path / "train.log"
    message = "saved at step 7 of 40; the same command continues from there"
    log.write_text("\n".join(["step 7", message, *(f"timing {row}" for row in range(30))]) + "\n")
    assert log_tail([str(log)]) == f"{message} ({log})"


def test_a_long_message_is_cut_in_the_middle(tmp_path):
    log = tmp_path / "a.log"
    faults = [f"- fault {number}" for number in range(5000)]
    log.write_text("\n".join(["error: 5000 faults", *faults, "Fix them."]))
    shown = [line.strip() for line in log_tail([str(log)]).splitlines()[1:]]
    assert shown[:-2] == ["error: 5000 faults", *faults[: len(shown) - 3]]
    left = 5002 - (len(shown) - 1)
    assert shown[-2:] == [f"... and {left} lines more, in {log}", "Fix them."]
    assert len(shown) < 110
