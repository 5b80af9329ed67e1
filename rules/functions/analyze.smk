"""Which folders of results are read together."""


def parents(files):
    """The folders of files."""
    return [str(Path(file).parent) for file in files]


def run_folders(wildcards, input):
    """The folders of the compared runs."""
    return parents(input.runs)


def evaluation_folders(wildcards, input):
    """The folders of the compared evaluations."""
    return parents(input.evaluations)
