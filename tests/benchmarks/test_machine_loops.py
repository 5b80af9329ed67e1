"""Loops that are read from a listing, on listings whose loops are known."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import machine_loops

    return machine_loops


def listing(*lines: str) -> str:
    """As the disassembler writes it: labels as they are, instructions with their address.

    ``20 FADD`` stands for twenty of them.
    """
    found: list[str] = []
    for line in lines:
        if line.startswith("."):
            found.append(line)
            continue
        count, _, text = line.partition(" ")
        for _ in range(int(count)):
            found.append(f"        /*{16 * len(found):04x}*/                   {text} ;")
    return "\n".join(found)


def test_a_loop_has_what_is_between_its_head_and_the_jump_back(loops: ModuleType) -> None:
    every, special = loops.counted(
        listing(
            "5 MOV", ".L_x_0:", "20 FADD", "3 MUFU.EX2", "1 @P0 BRA `(.L_x_0)", "2 STG", "1 EXIT"
        )
    )
    assert every == (5 + 24 + 3, (24,))
    assert special == (3, (3,))


def test_a_loop_in_a_loop_counts_for_itself(loops: ModuleType) -> None:
    every, special = loops.counted(
        listing(
            "1 MOV",
            ".L_x_0:",
            "10 FADD",
            ".L_x_1:",
            "30 FFMA",
            "2 MUFU.RCP",
            "1 @P0 BRA `(.L_x_1)",
            "4 FMUL",
            "1 @P1 BRA `(.L_x_0)",
            "1 EXIT",
        )
    )
    assert every == (50, (15, 33))
    assert special == (2, (0, 2))


def test_a_loop_may_go_on_behind_an_exit_that_is_not_always_taken(loops: ModuleType) -> None:
    every, _ = loops.counted(
        listing(
            "2 MOV",
            ".L_x_0:",
            "20 FADD",
            "1 @P0 EXIT",
            "5 IADD3",
            "1 BRA `(.L_x_0)",
            ".L_x_1:",
            "1 BRA `(.L_x_1)",
            "6 NOP",
        )
    )
    # Nothing gets to the last lines, which fill up the code.
    assert every == (2 + 27, (27,))


def test_waiting_out_of_line_is_no_loop(loops: ModuleType) -> None:
    every, _ = loops.counted(
        listing(
            "20 MOV",
            "1 @!P0 BRA `(.L_x_1)",
            ".L_x_0:",
            "20 FADD",
            "1 EXIT",
            ".L_x_1:",
            "1 SYNCS.PHASECHK",
            "1 @!P0 BRA `(.L_x_1)",
            "1 BRA `(.L_x_0)",
        )
    )
    # Code gets to the place that it jumps back to without it, too; the wait itself is short.
    assert every == (45, ())


def test_a_jump_over_code_is_no_loop(loops: ModuleType) -> None:
    every, _ = loops.counted(
        listing("3 MOV", "1 @P0 BRA `(.L_x_0)", "40 FADD", ".L_x_0:", "30 FMUL", "1 EXIT")
    )
    assert every == (75, ())
