"""Continue a run from its newest checkpoint."""

from __future__ import annotations

from vrtspike.config.run_schema import RunSettings
from vrtspike.monitoring.timing import TimingLogger
from vrtspike.training.checkpoints import latest_checkpoint, micro_batches_per_step
from vrtspike.training.distributed import Ranks
from vrtspike.training.loop import Trainer
from vrtspike.training.objectives import Trainable
from vrtspike.training.run_log import RunLog


def trainer_at_last_checkpoint(
    trainable: Trainable,
    settings: RunSettings,
    ranks: Ranks,
    log: RunLog,
    timing: TimingLogger,
) -> Trainer:
    """Build a trainer and continue from the newest checkpoint of its run, or begin it.

    Args:
        trainable: model, objective and batches, as for :class:`Trainer`.
        settings: settings of the run.
        ranks: the processes of the run.
        log: the run's records and messages; its folder has the checkpoints.
        timing: logger of the times of a step.

    Raises:
        RunError: if the checkpoint is damaged, belongs to another run, or cannot be continued by
            these processes.
    """
    checkpoint = latest_checkpoint(log.checkpoints)
    micro_batches = micro_batches_per_step(settings.TRAIN, ranks.world_size, checkpoint)
    trainer = Trainer(trainable, settings, ranks, log, timing, micro_batches)
    trainer.begin(checkpoint)
    return trainer
