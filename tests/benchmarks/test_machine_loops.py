"""Loops that are read from a listing, on listings whose loops are known."""

from __future__ import annotations

import pytest

import machine_loops as loops


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


@pytest.mark.parametrize(
    ("lines", "every", "special"),
    [
        pytest.param(
            ["5 MOV", ".L_x_0:", "20 FADD", "3 MUFU.EX2", "1 @P0 BRA `(.L_x_0)", "2 STG", "1 EXIT"],
            *((5 + 24 + 3, (24,)), (3, (3,))),
            id="what is between the head and the jump back",
        ),
        pytest.param(
            [
                *("1 MOV", ".L_x_0:", "10 FADD", ".L_x_1:", "30 FFMA", "2 MUFU.RCP"),
                *("1 @P0 BRA `(.L_x_1)", "4 FMUL", "1 @P1 BRA `(.L_x_0)", "1 EXIT"),
            ],
            *((50, (15, 33)), (2, (0, 2))),
            id="a loop in a loop counts for itself",
        ),
        # Nothing gets to the last lines, which fill up the code.
        pytest.param(
            [
                *("2 MOV", ".L_x_0:", "20 FADD", "1 @P0 EXIT", "5 IADD3", "1 BRA `(.L_x_0)"),
                *(".L_x_1:", "1 BRA `(.L_x_1)", "6 NOP"),
            ],
            *((2 + 27, (27,)), (0, (0,))),
            id="behind an exit that is not always taken",
        ),
        # Code gets to the place that it jumps back to without it, too; the wait itself is short.
        pytest.param(
            [
                *("20 MOV", "1 @!P0 BRA `(.L_x_1)", ".L_x_0:", "20 FADD", "1 EXIT", ".L_x_1:"),
                *("1 SYNCS.PHASECHK", "1 @!P0 BRA `(.L_x_1)", "1 BRA `(.L_x_0)"),
            ],
            *((45, ()), (0, ())),
            id="waiting out of line is no loop",
        ),
        pytest.param(
            ["3 MOV", "1 @P0 BRA `(.L_x_0)", "40 FADD", ".L_x_0:", "30 FMUL", "1 EXIT"],
            *((75, ()), (0, ())),
            id="a jump over code is no loop",
        ),
    ],
)
def test_loops_of_a_listing(lines, every, special) -> None:
    assert loops.counted(listing(*lines)) == (every, special)
