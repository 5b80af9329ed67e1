"""Check that a spike file shows a sharp frame, and print where in it the exposure centre lies."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.cli import HelpFormatter, run
from vrtspike.data.exposure import expected_center
from vrtspike.data.gate.alignment import center_tolerance, check_pair


def main() -> None:
    """Parse the arguments, check the pair and print the centre."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("spikes", type=Path, help="spike file (.dat)")
    parser.add_argument("frame", type=Path, help="sharp frame of the same exposure (PNG)")
    parser.add_argument("--height", type=int, help="rows of the sensor; default: half the frame's")
    parser.add_argument("--width", type=int, help="columns of the sensor; default: half")
    arguments = parser.parse_args()
    found, frames = check_pair(arguments.spikes, arguments.frame, arguments.height, arguments.width)
    expected, tolerance = expected_center(frames), center_tolerance(frames)
    print(
        f"exposure centre: step {found.center:.1f} of {frames} (correlation "
        f"{found.correlation:.2f}, expected at step {expected:.0f} +- {tolerance:.0f})"
    )
    if abs(found.center - expected) > tolerance:
        print(
            f"warning: {arguments.spikes} may be cut, shifted or reversed in time, or begin "
            "elsewhere in the exposure; see whether the other files of the sequence agree"
        )


if __name__ == "__main__":
    run(main)
