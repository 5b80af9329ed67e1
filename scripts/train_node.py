"""Start the training processes of one of several nodes; the launcher calls this on each.

They meet those of the other nodes at the endpoint. SIGTERM, SIGUSR1 and SIGINT are forwarded: the
processes save their state and end.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.launching.machines import Machines, gpus_option, train_on_node
from vrtspike.system.program import run


def main() -> int:
    """Parse the arguments, train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run-dir", type=Path, required=True, help="folder of the run")
    parser.add_argument("--program", type=Path, required=True, help="the training program")
    parser.add_argument("--gpus", type=gpus_option, default="auto", help="of this node, or auto")
    parser.add_argument("--nodes", type=int, required=True, help="how many nodes train")
    parser.add_argument("--endpoint", required=True, metavar="HOST:PORT", help="where they meet")
    arguments = parser.parse_args()
    machines = Machines(arguments.gpus, arguments.nodes)
    return train_on_node(arguments.run_dir, machines, arguments.program, arguments.endpoint)


if __name__ == "__main__":
    run(main)
