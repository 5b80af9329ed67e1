"""The configuration, and objects that several rule files use.

Snakemake reads all files into one namespace. Every file may use names of this one; further files
whose names it uses are listed at its top.
"""

import atexit
import json
import shlex
from functools import partial
from pathlib import Path

from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.config.workflow_loading import load_workflow
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.deblurring.planning.needed_presets import NeededPresets
from vrtspike.deblurring.planning.raw_data import RawData
from vrtspike.deblurring.planning.shards import Shards
from vrtspike.runs.file_names import MEMORY_LOG, METRICS_LOG, TIMING_LOG
from vrtspike.system.home import CONFIG, require_project, use_home
from vrtspike.workflow import rule_options, staleness
from vrtspike.workflow.made_with import version_notes
from vrtspike.workflow.messages import EndMessages
from vrtspike.workflow.paths import WorkflowPaths
from vrtspike.workflow.snakemake_internals import SnakemakeInternals
from vrtspike.workflow.start_checks import prepare_process, trigger_warnings
from vrtspike.workflow.training_staleness import Trainings

SNAKEMAKE = SnakemakeInternals(workflow)
END_MESSAGES = EndMessages()
user_errors = END_MESSAGES.user_errors
prepare_process(SNAKEMAKE)

OVERLAYS = [str(path) for path in workflow.configfiles if path != str(CONFIG)]
CONFIGFILES = [str(CONFIG), *OVERLAYS]
with user_errors():
    require_project()
    SNAKEMAKE.require_read_config(config)
    VERSION_NOTES = version_notes()
    WORKFLOW_PATHS = WorkflowPaths(use_home(SNAKEMAKE.rules_folder))
    # Parsed again, because Snakemake turns numbers in mappings into strings.
    OVERRIDES = parse_overrides(SNAKEMAKE.config_arguments, "--config").tree
    WORKFLOW = load_workflow(CONFIGFILES, OVERRIDES)
    DEBLURRING = DeblurringWorkflow(WORKFLOW)
    DATASETS = DEBLURRING.dataset_names
if SNAKEMAKE.is_main:
    END_MESSAGES.add(*VERSION_NOTES, *WORKFLOW.notes)
    # Known when the plan has begun; this runs before the notices are printed.
    atexit.register(
        lambda: END_MESSAGES.add(*trigger_warnings(SNAKEMAKE.disabled_triggers))
    )

RESULTS, PRESETS = WORKFLOW.settings.RESULTS, WORKFLOW.settings.PRESETS
LOGS = [METRICS_LOG, TIMING_LOG, MEMORY_LOG]
RAW_DATA = RawData(
    DEBLURRING, lambda: SNAKEMAKE.is_dry_run, END_MESSAGES, measures=SNAKEMAKE.is_main
)
DATA_SHARDS = Shards(DEBLURRING, RAW_DATA)
NEEDED_PRESETS = NeededPresets(DEBLURRING)
TRAININGS = Trainings(WORKFLOW, WORKFLOW_PATHS.scripts / "train.py")

one_of = rule_options.one_of

# Params that change with code or settings, and inputs that force the rerun of damaged results.
program = WORKFLOW_PATHS.program
code = partial(staleness.code_lines, WORKFLOW_PATHS.scripts)
task_code = partial(staleness.task_code_lines, WORKFLOW, WORKFLOW_PATHS.scripts)
setting_lines = partial(staleness.setting_lines, WORKFLOW)
rerun_damaged = partial(staleness.rerun_damaged, Path(RESULTS), SNAKEMAKE.force_rerun)


def ancient_files(paths):
    """Inputs whose dates do not count."""
    return [ancient(str(path)) for path in paths]


def configuration(wildcards, resources):
    """Options that pass the configuration to a program.

    Snakemake does not compare params that take `resources`; other params have the keys that change
    results.
    """
    return shlex.join(["--configfile", *CONFIGFILES, "--config", json.dumps(OVERRIDES)])


include: "functions/devices.smk"
include: "functions/data.smk"
include: "functions/training.smk"
include: "functions/presets.smk"
include: "functions/results.smk"
include: "functions/report.smk"
include: "functions/demos.smk"
