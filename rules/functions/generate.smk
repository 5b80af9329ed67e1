"""Where simulated sequences come from."""

from vrtspike.deblurring.planning.options import simulated_sequence, simulation_options
from vrtspike.deblurring.planning.raw_data import frames_version


@user_errors()
def source_of(wildcards):
    """The configured source of a simulated sequence."""
    return simulated_sequence(
        VIDEOS.settings.SIMULATE, wildcards.split, wildcards.sequence
    )


def simulation(wildcards):
    """How a sequence is simulated, as options."""
    return simulation_options(VIDEOS.settings.SIMULATE, source_of(wildcards))


def version_of_frames(wildcards):
    """Changes when the frames of a simulated sequence change, not when they are touched."""
    return frames_version(source_of(wildcards).FRAMES)
