from __future__ import annotations

import os
import sys
import time

from vrtspike.queueing.ask import ask


def test_an_answer_is_what_the_program_prints():
    assert ask([sys.executable, "-c", "print('12|RUNNING')"]).text == "12|RUNNING\n"


def test_a_program_that_fails_is_quoted_with_its_last_line():
    code = "import sys; print('a hint', file=sys.stderr); sys.exit('no controller')"
    answer = ask([sys.executable, "-c", code])
    assert (answer.text, answer.fault) == (None, "no controller")
    assert ask(["false"]).fault == "false: ended with status 1"


def test_a_program_that_never_answers_is_left():
    begin = time.monotonic()
    answer = ask(["sleep", "1000"], limit_s=0.2)
    assert time.monotonic() - begin < 500
    assert (answer.text, answer.fault) == (None, "sleep: no answer within 0.2 s")


def test_a_program_that_reads_waits_for_nobody():
    kept, (reading, writing) = os.dup(0), os.pipe()
    os.dup2(reading, 0)
    try:
        assert ask(["cat"], limit_s=20).text == ""
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, reading, writing):
            os.close(descriptor)


def test_a_program_that_is_not_there_is_no_crash():
    assert ask(["no-such-program"]).fault == "no-such-program: No such file or directory"


def test_settings_of_the_users_own_do_not_change_an_answer(monkeypatch):
    """``SQUEUE_PARTITION`` would leave out the jobs of other partitions: they would seem lost."""
    for name in ("SQUEUE_PARTITION", "SACCT_FORMAT", "SCANCEL_INTERACTIVE", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    found = (ask(["env"]).text or "").splitlines()
    assert "LC_ALL=C" in found
    assert [line for line in found if line.endswith("=mine")] == ["SLURM_CLUSTERS=mine"]


def test_all_that_is_said_is_kept_beside_the_answer():
    code = "import sys; print('out'); print('one\\ntwo', file=sys.stderr); sys.exit({})"
    for status in (0, 1):
        answer = ask([sys.executable, "-c", code.format(status)])
        assert answer.said == "out\none\ntwo\n"
        assert (answer.text, answer.fault) == ((None, "two") if status else ("out\n", ""))
