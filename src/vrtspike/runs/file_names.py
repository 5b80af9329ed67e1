"""Names of all files of a run, in its folder (``RUNS/<preset>/<fingerprint>``) and published.

=========================== ============================================ =========================
file                        contents                                     where
=========================== ============================================ =========================
``settings.json``           identity and settings, complete              run folder and published
``run.json``                environment, starts, status, final metrics   run folder and published
``code.json``               digests of the code that trained it          run folder and published
``statistics.json``         statistics that standardise the inputs       run folder and published
``metrics.jsonl``           losses, rates, epochs, validations           run folder and published
``metrics.csv``             the same as a table                          published
``tensorboard/``            the metrics as curves of TensorBoard         run folder
``weights.safetensors``     the weights of the last step, or with        run folder and published
                            TRAIN.EARLY_STOPPING of the best validation
``best.safetensors``        the weights of the best validation           run folder
``checkpoints/``            the state for exact resume                   run folder
``logs/memory.jsonl``       memory, GPU, cache                           run folder
``memory.jsonl``            the same                                     published
``logs/timing_*.jsonl``     time of each step; a file per start, in UTC  run folder
``logs/timing_*.log``       the same as text                             run folder
``logs/profile_*``          operations of LOG.PROFILE_STEPS              run folder
``timing.jsonl``            each step once                               published
``pictures/``               a frame of each validation that              run folder
                            LOG.VISUALS_EVERY_STEPS selects
``pictures/``               that of at most eight validations            published
``evaluation.json``         the evaluation                               packed
``README.md``               the model card                               packed
``lock``                    held by the process that trains              run folder
``launcher.lock``           held by the launcher                         run folder
=========================== ============================================ =========================
"""

from __future__ import annotations

from pathlib import Path

SETTINGS_FILE = "settings.json"
RUN_RECORD = "run.json"
CODE = "code.json"
STATISTICS = "statistics.json"
METRICS_LOG = "metrics.jsonl"
METRICS_TABLE = "metrics.csv"
WEIGHTS = "weights.safetensors"
EVALUATION = "evaluation.json"
CARD = "README.md"
BEST_WEIGHTS = "best.safetensors"
MEMORY_LOG = "memory.jsonl"
TIMING_LOG = "timing.jsonl"
TIMING_OF_STARTS = "timing_*.jsonl"
CHECKPOINTS = "checkpoints"
LOGS = "logs"
PICTURES_FOLDER = "pictures"
TENSORBOARD = "tensorboard"
LOCK = "lock"
LAUNCHER_LOCK = "launcher.lock"


def weights_file(path: Path) -> Path:
    """Return the file of weights that a path names: the path, or the file in a result folder.

    >>> weights_file(Path("results/train/demo"))
    PosixPath('results/train/demo/weights.safetensors')
    """
    return path if path.suffix == Path(WEIGHTS).suffix else path / WEIGHTS
