"""What several stages share: the configuration, read once, and how jobs hang together."""

import contextlib
import functools
import gc
import os
import sys
from pathlib import Path

from vrtspike.config.merging import parse_overrides
from vrtspike.config.workflow import load_workflow
from vrtspike.data.manifests import SURVEY, read_manifest, surveyed
from vrtspike.errors import EXIT_USER_ERROR, UserError
from vrtspike.planning.damage import is_cut, is_damaged
from vrtspike.planning.notices import Notices
from vrtspike.planning.options import one_of
from vrtspike.planning.params import code_lines, setting_lines
from vrtspike.planning.raw_data import RawData
from vrtspike.planning.training import Trainings

# A plan is many objects that all stay: looking for garbage among them took a tenth of its time.
gc.set_threshold(200_000)
# Jobs find the Python that runs Snakemake, also where its environment is not activated.
os.environ.update(
    PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])
)


@contextlib.contextmanager
def user_errors():
    """A UserError ends Snakemake as it ends every program: a plain message and exit status 2."""
    try:
        yield
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        NOTICES.leave_out(str(error))
        raise SystemExit(EXIT_USER_ERROR)


NOTICES = Notices()
OVERLAYS = [str(path) for path in workflow.overwrite_configfiles]
CONFIGFILES = [*map(str, workflow.configfiles[len(OVERLAYS) :]), *OVERLAYS]
with user_errors():
    # Snakemake turns the numbers within a mapping into strings, so they are read again.
    OVERRIDES = parse_overrides(workflow.config_settings.config_args, "--config").tree
    PLAN = load_workflow(CONFIGFILES, OVERRIDES)
    DATASETS = PLAN.datasets

RESULTS = PLAN.settings.RESULTS
SCRIPTS = Path("scripts")
RAW_DATA = RawData(PLAN, lambda: workflow.dryrun, NOTICES.add)
TRAININGS = Trainings(PLAN, SCRIPTS / "train.py", NOTICES.add)
# More than any machine has: Snakemake lowers it to --cores; clusters set it in their profile.
EVERY_CORE = 1024


if workflow.is_main_process:
    for name, error in PLAN.broken.items():
        NOTICES.add(f"preset {name} cannot be used, others can:\n{error}")


def code(*programs):
    """Params that change with the code behind these programs."""
    return code_lines(*(SCRIPTS / program for program in programs))


def settings(select):
    """Params that change with the settings `select` picks from a preset, one per key."""
    return setting_lines(PLAN, select)


def dataset_of(wildcards):
    """The dataset that a job is about: named itself, or that of the job's preset."""
    if "dataset" in wildcards.keys():
        return DATASETS[wildcards.dataset]
    return PLAN.dataset(wildcards.preset)


def make_again(path):
    """Run the job that makes a file, whether it seems stale or not."""
    workflow.dag.forcefiles.add(path)


def renew_damaged(path, kind):
    """Make a manifest again that cannot be read."""
    if is_damaged(path, kind):
        make_again(path)


@user_errors()
def manifests(dataset, folder):
    """A manifest in this folder for each sequence that the survey found."""
    survey = read_manifest(checkpoints.survey.get(dataset=dataset).output[0], SURVEY)
    return [f"{folder}/{name}.json" for name in surveyed(survey)]


@user_errors()
def dataset_manifest(wildcards):
    """The dataset of the job's preset; unchanged contents leave what depends on it as it is."""
    preset = PLAN.preset(wildcards.preset)
    RAW_DATA.require_spikes(wildcards.preset, preset)
    dataset = PLAN.dataset(wildcards.preset).name
    return checkpoints.statistics.get(dataset=dataset, bins=preset.DATA.K).output[0]


def gate(wildcards):
    """What the gate wrote about the dataset of the job's preset; only the order counts.

    Snakemake decides again about the jobs that depend on a checkpoint when it has run. Without
    this, those of a preset stay due where the gate ran again and said the same.
    """
    name = PLAN.dataset(wildcards.preset).name
    bins = PLAN.preset(wildcards.preset).DATA.K
    return ancient(f"{RESULTS}/data/{name}/k{bins}/accepted.json")


def parents(files):
    """The folders of files."""
    return [str(Path(file).parent) for file in files]


def run_folders(wildcards, input):
    """The folders of the compared runs."""
    return parents(input.runs)


def evaluation_folders(wildcards, input):
    """The folders of the compared evaluations."""
    return parents(input.evaluations)
