"""A training process of the forecast task, started by torchrun or forked in the tests.

With a third argument the second process of the first start kills itself after so many
micro-batches.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))


def train_as_one_of_many(folder: Path, train: dict[str, Any], last: int = 0) -> int:
    """Train as the environment's RANK says, at most ``last`` micro-batches unless that is 0.

    Returns:
        the exit status.
    """
    from tests.training.forecast import FlowForecaster
    from tests.training.setup_run import forecast_settings, forecast_trainer
    from tests.training.stopping import StopAfter
    from vrtspike.launching.signals import EXIT_INTERRUPTED, StopRequest
    from vrtspike.training.distributed import join

    with StopRequest() as stop, join("cpu") as ranks:
        trainer = forecast_trainer(
            folder,
            forecast_settings(train),
            ranks=ranks,
            timing=ranks.is_main,
            task=StopAfter(last, signal.SIGKILL),
            model=FlowForecaster,
            samples=11,
            drop_last=False,
        )
        outcome = trainer.run(stop)
        trainer.timing.close()
        # Every process must have learned the same weights.
        sums = ranks.gather(
            sum(float(p.detach().double().sum()) for p in trainer.model.parameters())
        )
        assert len(set(sums)) == 1, sums
    return 0 if outcome == "finished" else EXIT_INTERRUPTED


if __name__ == "__main__":
    from vrtspike.launching.status import leave
    from vrtspike.processes import stop_with_parent

    stop_with_parent()
    dies = (os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]) == ("1", "0")
    last = int(sys.argv[3]) if dies and len(sys.argv) > 3 else 0
    leave(train_as_one_of_many(Path(sys.argv[1]), json.loads(sys.argv[2]), last))
