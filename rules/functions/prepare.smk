"""What the data of other problems are prepared from."""

from vrtspike.planning.prepared import PreparedData

PREPARED = PreparedData(PLAN)


@user_errors()
def raw_files(wildcards):
    """The raw files that the user gives; a touched one is no other one."""
    folder = wildcards.prepared
    if reason := PREPARED.why_again(folder):
        make_again(str(PREPARED.manifest(folder)), reason)
    return [ancient(str(path)) for path in PREPARED.files(folder)]


def preset_of_data(wildcards):
    """The preset that stands for all that share the data."""
    return PREPARED.preset(wildcards.prepared)


def data_settings(settings):
    """What decides these data."""
    return find_problem(settings.TASK).data_settings(settings)
