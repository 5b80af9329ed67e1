from __future__ import annotations

from vrtspike.watching.steps import steps


def test_steps_of_several_logs_are_added(tmp_path):
    logs = [tmp_path / f"{name}.log" for name in ("a", "b", "none", "other")]
    logs[0].write_text("share 0-of-2: 9 sequences\n[1/9] a\n[2/9] b: 3 faults\n  - [5/5] of x\n")
    logs[1].write_text("[8/8] z\nx [9/9] y\n")
    logs[3].write_text("a program that counts nothing\n")
    assert steps(logs) == (10, 17)
    assert steps(logs[2:]) == (0, 0)
    logs[2].write_text("[0/7] share 1-of-2: 9 sequences, 7 of them to do\n")
    assert steps(logs) == (10, 24)
    assert steps([]) == (0, 0)


def test_of_a_long_log_its_end_counts(tmp_path):
    log = tmp_path / "long.log"
    log.write_bytes(b"[1/9] \xff\n" + 9000 * b"much\n" + b"[2/9] b\n" + 99 * b"  - a fault\n")
    assert steps([log]) == (2, 9)
