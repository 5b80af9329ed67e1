"""``torchrun`` for the launcher: the end of a training process is told by a status, not by a page.

Called as ``python -m vrtspike.launching.agent``, with the arguments of ``torchrun``.
"""

from __future__ import annotations

import sys

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main

if __name__ == "__main__":
    try:
        main()
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        # As a shell tells it, so that the launcher can.
        sys.exit(128 - failure.exitcode if failure.exitcode < 0 else 1)
