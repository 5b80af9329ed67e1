"""The configuration, and objects that several rule files use.

Snakemake reads all files into one namespace. A name that a file neither defines nor imports is one
of this file, or of a file in functions/ that is listed at its top.
"""

import atexit
import json
import shlex
from functools import partial
from pathlib import Path

from vrtspike.analysis.diagnosis.task_advice import task_advice
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.deblurring.planning.data_plan import DataPlan
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.launching.gpus import usable_gpus
from vrtspike.runs.file_names import MEMORY_LOG, METRICS_LOG, TIMING_LOG
from vrtspike.staleness import params as staleness_params
from vrtspike.staleness.trainings import TrainingPlanner
from vrtspike.system.home import CONFIG, require_project, use_home
from vrtspike.workflow.job_resources import LocalDevices
from vrtspike.workflow.project_version import version_messages
from vrtspike.workflow.messages import ExitMessages
from vrtspike.workflow.paths import WorkflowPaths
from vrtspike.workflow.snakemake_internals import SnakemakeInternals
from vrtspike.workflow.start_checks import prepare_process, trigger_warnings

SNAKEMAKE = SnakemakeInternals(workflow)
EXIT_MESSAGES = ExitMessages()
user_errors = EXIT_MESSAGES.user_errors
prepare_process(SNAKEMAKE)

OVERLAYS = [str(path) for path in workflow.configfiles if path != str(CONFIG)]
CONFIGFILES = [str(CONFIG), *OVERLAYS]
with user_errors():
    require_project()
    SNAKEMAKE.require_read_config(config)
    VERSION_MESSAGES = version_messages()
    WORKFLOW_PATHS = WorkflowPaths(use_home(SNAKEMAKE.rules_folder))
    # Parsed again, because Snakemake turns numbers in mappings into strings.
    OVERRIDES = parse_overrides(SNAKEMAKE.config_arguments, "--config").tree
    WORKFLOW_CONFIG = load_workflow_config(CONFIGFILES, OVERRIDES)
    DEBLURRING_CONFIG = DeblurringConfig(WORKFLOW_CONFIG)
    DATASETS = DEBLURRING_CONFIG.dataset_names
if SNAKEMAKE.is_main:
    EXIT_MESSAGES.add(*VERSION_MESSAGES, *WORKFLOW_CONFIG.notes)
    # Known when the plan has begun; this runs before the messages are printed.
    atexit.register(
        lambda: EXIT_MESSAGES.add(*trigger_warnings(SNAKEMAKE.disabled_triggers))
    )

RESULTS = WORKFLOW_CONFIG.settings.RESULTS
PRESETS = WORKFLOW_CONFIG.settings.PRESETS
GPUS = WORKFLOW_CONFIG.settings.GPUS
NODES = WORKFLOW_CONFIG.settings.NODES
LOGS = [METRICS_LOG, TIMING_LOG, MEMORY_LOG]

# The objects that decide on jobs. Rules call them directly: their methods end Snakemake with a
# message at a UserError. Functions of rules that call other code that may raise one are marked
# with @user_errors().
DATA_PLAN = EXIT_MESSAGES.guarded(DataPlan(DEBLURRING_CONFIG, SNAKEMAKE, EXIT_MESSAGES))
TRAINING_PLANNER = EXIT_MESSAGES.guarded(
    TrainingPlanner(
        WORKFLOW_CONFIG,
        WORKFLOW_PATHS.scripts / "train.py",
        lambda settings: task_advice(settings).missing_weights,
    )
)
DEVICES = EXIT_MESSAGES.guarded(
    LocalDevices(GPUS, SNAKEMAKE, lambda: len(usable_gpus()))
)

# Params that change with code or settings, and inputs that force the rerun of damaged results.
program = WORKFLOW_PATHS.program
code_lines = partial(staleness_params.code_lines, WORKFLOW_PATHS.scripts)
task_code_lines = partial(
    staleness_params.task_code_lines, WORKFLOW_CONFIG, WORKFLOW_PATHS.scripts
)
setting_lines = partial(staleness_params.setting_lines, WORKFLOW_CONFIG)
rerun_damaged = partial(
    staleness_params.rerun_damaged, Path(RESULTS), SNAKEMAKE.force_rerun
)


def ancient_files(paths):
    """Inputs whose dates do not count."""
    return [ancient(str(path)) for path in paths]


def configuration(wildcards, resources):
    """Options that pass the configuration to a program.

    Snakemake does not compare params that take `resources`; other params have the keys that change
    results.
    """
    return shlex.join(["--configfile", *CONFIGFILES, "--config", json.dumps(OVERRIDES)])


include: "functions/data.smk"
include: "functions/trainings.smk"
include: "functions/reports.smk"
