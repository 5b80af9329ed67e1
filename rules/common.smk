"""What rules share: the configuration, read once, and the questions they ask of it."""

import atexit
import contextlib
import functools
import gc
import json
import os
import re
import shlex
import sys
from pathlib import Path

from vrtspike import provenance
from vrtspike.config.ablation import derived_names
from vrtspike.config.loading import check_files
from vrtspike.config.merging import parse_overrides
from vrtspike.config.results import evaluation_settings, result_settings
from vrtspike.config.workflow import load_workflow
from vrtspike.data.manifests import ACCEPTED, SURVEY, read_manifest, surveyed
from vrtspike.data.clips.requirements import clip_length, crop_sizes, require_spikes
from vrtspike.data.raw.folders import folder_version
from vrtspike.data.raw.survey import survey
from vrtspike.data.raw.versions import source_version
from vrtspike.errors import (
    EXIT_USER_ERROR,
    ConfigError,
    DataError,
    UserError,
    list_faults,
    named_faults,
)
from vrtspike.files import json_digest
from vrtspike.flatten import flat_settings
from vrtspike.pretrained import PUBLISHED
from vrtspike.launching.launch import OBSERVERS, require_machines

# A plan is many objects that all stay: looking for garbage among them took a tenth of its time.
gc.set_threshold(200_000)
SCRIPTS = Path("scripts")
CAPTIONS = sorted(str(path) for path in Path("workflow/report").glob("*.rst"))
# Jobs find the Python that runs Snakemake, also where its environment is not activated.
PYTHON_FOLDER = str(Path(sys.executable).parent)
os.environ.update(PATH=os.pathsep.join([PYTHON_FOLDER, *os.get_exec_path()]))
# Threads that wait sleep instead of spinning: on busy cores a CPU training step took 4 to 7 times
# as long with spinning threads. PyTorch's own OpenMP spins for some microseconds first, which makes
# the short operations of a quiet machine up to a third faster.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "2000")


@contextlib.contextmanager
def user_errors():
    """A UserError ends Snakemake as it ends every program: a plain message and exit status 2."""
    try:
        yield
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(EXIT_USER_ERROR)


OVERLAYS = [str(path) for path in workflow.overwrite_configfiles]
CONFIGFILES = [*workflow.configfiles[len(OVERLAYS) :], *OVERLAYS]
with user_errors():
    # Snakemake turns the numbers within a mapping into strings, so they are read again.
    OVERRIDES = parse_overrides(workflow.config_settings.config_args, "--config").tree
    PLAN = load_workflow(CONFIGFILES, OVERRIDES)
    DATASETS = PLAN.datasets

WEIGHT_FILES = sorted(PUBLISHED)
WEIGHT_DIRS = sorted({preset.WEIGHTS.DIR for preset in PLAN.presets.values()})
NO_DATA = """
Before this can run: {error}
Set DATA.ROOT, in config/config.yaml unless a preset or --config gives it. Without data: make demo"""
FAULTS = {
    "stop": "A run looks into all other files, lists every fault, and stops before computing.",
    "exclude": "A run goes on without these sequences (DATA.ON_ERROR: exclude).",
}
GPUS = 1 if PLAN.settings.GPUS == "auto" else PLAN.settings.GPUS
NODES = PLAN.settings.NODES
# A counter for the scheduler; the launcher chooses the devices.
TRAINING_DEVICES = {"gpu": GPUS}
if NODES > 1:
    # What the Slurm executor needs for one task a node, which the launcher starts by itself
    # (`mpi`), and as many GPUs on each; it would count tasks by GPUs otherwise.
    TRAINING_DEVICES = {
        "nodes": NODES,
        "tasks": NODES,
        "mpi": "srun",
        "tasks_per_gpu": 0,
    }
    if GPUS:
        TRAINING_DEVICES["gres"] = f"gpu:{GPUS}"
# More than any machine has: Snakemake lowers it to --cores; clusters set it in their profile.
EVERY_CORE = 1024


def one_of(names):
    """A wildcard constraint: one of these names."""
    return "|".join(re.escape(name) for name in names)


def code(*scripts, neutral=()):
    """Params that change with the code behind these scripts, one per source file."""
    files = [
        provenance.code_digests(SCRIPTS / script, neutral=neutral) for script in scripts
    ]
    return sorted({str(digest) for digests in files for digest in digests})


def preset_setting(lines, key, wildcards):
    """One setting of the job's preset as 'KEY: value'."""
    return f"{key}: {lines(wildcards.preset).get(key)}"


def settings(select):
    """Params that change with the settings `select` picks from a preset, one per key."""

    @functools.cache
    def lines(name):
        return flat_settings(select(PLAN.preset(name)))

    keys = sorted(set().union(*(lines(name) for name in PLAN.presets)))
    return [functools.partial(preset_setting, lines, key) for key in keys]


def root(wildcards):
    """The data root of the job's dataset."""
    return DATASETS[wildcards.dataset].root


def train_split(wildcards):
    """The split that the job's dataset trains on."""
    return DATASETS[wildcards.dataset].train_split


def splits(wildcards):
    """The training and the test split of the job's dataset."""
    dataset = DATASETS[wildcards.dataset]
    return [dataset.train_split, dataset.val_split]


def raw_files(wildcards):
    """Which raw files the job's dataset has and how they are named, as options."""
    dataset = DATASETS[wildcards.dataset]
    options = {
        "root": dataset.root,
        "blur-dir": dataset.blur_dir,
        "layout": dataset.layout,
    }
    return shlex.join(f"--{name}={value}" for name, value in options.items())


def on_error(wildcards):
    """What to do with faulty sequences of the job's dataset."""
    return DATASETS[wildcards.dataset].on_error


def clip_options(wildcards):
    """What the clips that presets take from the job's dataset ask of it at least, as options."""
    presets = [
        preset
        for name, preset in PLAN.presets.items()
        if PLAN.dataset(name).name == wildcards.dataset
    ]
    sizes = [f"{split}={size}" for split, size in crop_sizes(presets).items()]
    return shlex.join(
        ["--clip-length", str(clip_length(presets)), "--crop-sizes", *sizes]
    )


def sensor_option(wildcards):
    """The size of the spike sensor where the configuration gives it."""
    size = DATASETS[wildcards.dataset].spike_size
    return f"--spike-size {size[0]} {size[1]}" if size else ""


@functools.cache
def survey_of(dataset):
    """What stands below a data root; None, and a notice at the end, without data."""
    splits = [dataset.train_split, dataset.val_split]
    # Notices are said last, where they are read: a plan of many lines comes before them.
    try:
        known = survey(dataset.root, splits, dataset.blur_dir, dataset.layout)
    except DataError as error:
        atexit.register(print, NO_DATA.format(error=error), file=sys.stderr)
        return None
    if (
        known["excluded"] and workflow.dryrun
    ):  # in a run the gate tells these and all others
        faults = named_faults(known["excluded"])
        title = f"\n{dataset.root} has faults, as far as names show"
        atexit.register(
            print, list_faults(title, faults, FAULTS[dataset.on_error]), file=sys.stderr
        )
    return known


def found(wildcards):
    """Changes when sequences are added to or removed from a data root that users fill.

    Generated data change with the jobs before; only what was set aside there is looked at again.
    """
    dataset = DATASETS[wildcards.dataset]
    if dataset.kind == "raw":
        known = survey_of(dataset)
        return json_digest(known) if known else None
    try:
        path = f"{PLAN.settings.RESULTS}/data/{dataset.name}/survey.json"
        before = read_manifest(path, SURVEY)["excluded"]
    except DataError:
        return None  # there is none yet, or none that this version reads
    return json_digest([before, survey_of(dataset)]) if before else None


def generated(wildcards):
    """What must be generated before a dataset can be surveyed."""
    dataset = DATASETS[wildcards.dataset]
    if dataset.kind == "demo":
        return [f"{dataset.root}/sources.txt"]
    if dataset.kind == "simulated":
        return [
            f"{dataset.root}/sources/{sequence.SPLIT}/{sequence.SEQUENCE}.txt"
            for sequence in PLAN.settings.SIMULATE.SEQUENCES
        ]
    return []


@user_errors()
def source_of(wildcards):
    """The configured source of a simulated sequence."""
    wanted = wildcards.split, wildcards.sequence
    found = [
        s for s in PLAN.settings.SIMULATE.SEQUENCES if (s.SPLIT, s.SEQUENCE) == wanted
    ]
    if not found:
        raise ConfigError(f"SIMULATE.SEQUENCES has no {'/'.join(wanted)}")
    return found[0]


def simulation(wildcards):
    """How a sequence is simulated, as options."""
    plan, source = PLAN.settings.SIMULATE, source_of(wildcards)
    options = {
        "frames": source.FRAMES,
        "output": plan.ROOT,
        "frames-per-exposure": source.FRAMES_PER_EXPOSURE,
        "steps-per-frame": plan.STEPS_PER_FRAME,
        "theta": plan.THETA,
        "gamma": "none" if plan.GAMMA is None else plan.GAMMA,
        "seed": plan.SEED,
        "interpolation": plan.INTERPOLATION,
    }
    return shlex.join(f"--{name}={value}" for name, value in options.items())


def frames_version(wildcards):
    """Changes when the frames of a simulated sequence change, not when they are touched."""
    try:
        return folder_version(Path(source_of(wildcards).FRAMES))
    except DataError:
        return "missing"  # the job meets the same error and reports it


@user_errors()
def survey_before(wildcards):
    """The survey, as what comes before the check of a sequence.

    In a folder that users fill only the order counts: files are compared one by one, and one
    sequence more concerns no other. Files that a job generates can only be compared after it.
    """
    path = f"<results>/data/{wildcards.dataset}/survey.json"
    return ancient(path) if DATASETS[wildcards.dataset].kind == "raw" else path


def manifests(dataset, folder):
    """A manifest in this folder for each sequence that the survey found."""
    survey = read_manifest(checkpoints.survey.get(dataset=dataset).output[0], SURVEY)
    return [f"{folder}/{name}.json" for name in surveyed(survey)]


def ingest_manifests(wildcards):
    """The ingest manifest of every sequence."""
    name = wildcards.dataset
    return manifests(name, f"<results>/data/{name}/ingest")


def alignments(presets):
    """Tables and plots of the alignment of what these presets train on."""
    known = [preset for preset in presets if preset in PLAN.presets]
    names = sorted({PLAN.dataset(preset).name for preset in known})
    return expand(
        "<results>/data/{dataset}/alignment.{kind}", dataset=names, kind=["csv", "svg"]
    )


@user_errors()
def store_manifests(wildcards):
    """The store manifest of every sequence that was not excluded."""
    name, bins = wildcards.dataset, wildcards.bins
    folder = f"<results>/data/{name}/k{bins}"
    if DATASETS[name].on_error == "stop":
        return manifests(name, folder)  # the gate lets all pass or none
    accepted = checkpoints.accept.get(dataset=name, bins=bins).output[0]
    names = read_manifest(accepted, ACCEPTED)["sequences"]
    return [f"{folder}/{sequence}.json" for sequence in names]


def raw_version(wildcards):
    """Changes when a sequence's raw files change, not when they are touched."""
    dataset = DATASETS[wildcards.dataset]
    manifest = (
        f"{PLAN.settings.RESULTS}/data/{{dataset}}/ingest/{{split}}/{{sequence}}.json"
    )
    try:
        return source_version(
            dataset.root,
            wildcards.sequence,
            wildcards.split,
            manifest.format(**wildcards),
            blur_dir=dataset.blur_dir,
            layout=dataset.layout,
        )
    except DataError:
        return "missing"  # the job meets the same error and reports it


@user_errors()
def dataset_manifest(wildcards):
    """The dataset of the job's preset; unchanged contents leave what depends on it as it is."""
    dataset, preset = PLAN.dataset(wildcards.preset), PLAN.preset(wildcards.preset)
    known = survey_of(dataset) if dataset.kind == "raw" else None
    if known:
        where = f"preset {wildcards.preset}, {dataset.root}"
        require_spikes(where, known["spikes"], preset)
    found = checkpoints.statistics.get(dataset=dataset.name, bins=preset.DATA.K)
    return found.output[0]


def gate(wildcards):
    """What the gate wrote about the dataset of the job's preset; only the order counts.

    Snakemake decides again about the jobs that depend on a checkpoint when it has run. Without
    this, those of a preset stay due where the gate ran again and said the same.
    """
    name = PLAN.dataset(wildcards.preset).name
    bins = PLAN.preset(wildcards.preset).DATA.K
    return ancient(f"<results>/data/{name}/k{bins}/accepted.json")


@functools.cache
def find_machines():
    """Before a run on this machine computes anything: training will find the devices it needs."""
    # Without an executor Snakemake only tells about a plan or its results, such as a report.
    runs = workflow.executor_plugin and not (workflow.dryrun or workflow.touch)
    if runs and workflow.is_main_process and workflow.local_exec:
        require_machines(PLAN.settings.GPUS, NODES)


@user_errors()
def teacher(wildcards):
    """The weights a preset learns from, if it does.

    What else a training cannot do without has to be there before anything is computed.
    """
    trained = f"{PLAN.settings.RESULTS}/train/{wildcards.preset}/weights.safetensors"
    if not Path(trained).is_file():
        check_files(PLAN.preset(wildcards.preset))
        find_machines()
    distill = PLAN.preset(wildcards.preset).TRAIN.DISTILL
    return [f"{distill.TEACHER}/weights.safetensors"] if distill else []


def configuration(wildcards, resources):
    """Where programs find the same configuration again.

    It takes `resources` because Snakemake does not compare params that derive from them: what
    changes a result is compared key by key.
    """
    files = [str(path) for path in CONFIGFILES]
    return shlex.join(["--configfile", *files, "--config", json.dumps(OVERRIDES)])


def evaluation_overrides(wildcards, resources):
    """Today's TEST settings for weights that were trained under other ones."""
    test = {"TEST": PLAN.preset(wildcards.preset).TEST.model_dump(mode="json")}
    lines = flat_settings(test)
    return shlex.join(["--set", *(f"{key}={value}" for key, value in lines.items())])


@user_errors()
def ablated_runs(wildcards):
    """Runs and evaluations of a preset, or of those named by PRESETS, and of their ablations."""
    presets = [*wildcards] or PLAN.settings.PRESETS
    names = [name for preset in presets for name in (preset, *derived_names(preset))]
    # What cannot be derived is told before anything is computed.
    for name in names:
        PLAN.preset(name)
    return {
        "runs": expand("<results>/train/{preset}/run.json", preset=names),
        "evaluations": expand("<results>/evaluate/{preset}/summary.json", preset=names),
    }


def run_folders(wildcards, input):
    """The folders of the compared runs."""
    return [str(Path(run).parent) for run in input.runs]


def evaluation_folders(wildcards, input):
    """The folders of the compared evaluations."""
    return [str(Path(evaluation).parent) for evaluation in input.evaluations]


def nested_call(wildcards, resources):
    """Options that make a Snakemake within a rule see the same workflow."""
    options = ["--snakefile", workflow.main_snakefile, "--cores", "1", "--nolock"]
    if OVERLAYS:
        options += ["--configfile", *OVERLAYS]
    if workflow.config_settings.config_args:
        options += ["--config", *workflow.config_settings.config_args]
    return shlex.join(options)
