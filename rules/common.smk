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
from vrtspike.deblurring.planning.raw_data import RawData
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.runs.file_names import MEMORY, METRICS, TIMING
from vrtspike.system.home import CONFIG, require_project, use_home
from vrtspike.workflow import rule_options, staleness
from vrtspike.workflow.made_with import version_notice
from vrtspike.workflow.messages import Notices
from vrtspike.workflow.paths import Places
from vrtspike.workflow.snakemake_internals import SnakemakeInternals
from vrtspike.workflow.start_checks import prepare_process, trigger_notice
from vrtspike.workflow.training_staleness import Trainings

SNAKEMAKE = SnakemakeInternals(workflow)
NOTICES = Notices()
user_errors = NOTICES.user_errors
prepare_process(SNAKEMAKE)

OVERLAYS = [str(path) for path in workflow.configfiles if path != str(CONFIG)]
CONFIGFILES = [str(CONFIG), *OVERLAYS]
with user_errors():
    require_project()
    SNAKEMAKE.require_read_config(config)
    VERSION_NOTICE = version_notice()
    PLACES = Places(use_home(SNAKEMAKE.rules_folder))
    # Parsed again, because Snakemake turns numbers in mappings into strings.
    OVERRIDES = parse_overrides(SNAKEMAKE.config_arguments, "--config").tree
    WORKFLOW = load_workflow(CONFIGFILES, OVERRIDES)
    DEBLURRING = DeblurringWorkflow(WORKFLOW)
    DATASETS = DEBLURRING.dataset_names
if SNAKEMAKE.is_main:
    NOTICES.add(*VERSION_NOTICE, *WORKFLOW.notices)
    # Known when the plan has begun; this runs before the notices are printed.
    atexit.register(lambda: NOTICES.add(*trigger_notice(SNAKEMAKE.disabled_triggers)))

RESULTS, PRESETS = WORKFLOW.settings.RESULTS, WORKFLOW.settings.PRESETS
LOGS = [METRICS, TIMING, MEMORY]
RAW_DATA = RawData(
    DEBLURRING, lambda: SNAKEMAKE.is_dry_run, NOTICES, measures=SNAKEMAKE.is_main
)
TRAININGS = Trainings(WORKFLOW, PLACES.scripts / "train.py")

one_of = rule_options.one_of

# Params that change with code or settings, and inputs that force the rerun of damaged results.
program = PLACES.program
code = partial(staleness.code_lines, PLACES.scripts)
task_code = partial(staleness.task_code_lines, WORKFLOW, PLACES.scripts)
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
