"""Which stores make a dataset."""

from vrtspike.data.manifests import ACCEPTED, DATASET


@user_errors()
def store_manifests(wildcards):
    """The store manifest of every sequence that was not excluded."""
    name, bins = wildcards.dataset, wildcards.bins
    folder = f"{RESULTS}/data/{name}/k{bins}"
    renew_damaged(f"{folder}/dataset.json", DATASET)
    if DATASETS[name].on_error == "stop":
        return manifests(name, folder)  # the gate lets all pass or none
    accepted = checkpoints.accept.get(dataset=name, bins=bins).output[0]
    names = read_manifest(accepted, ACCEPTED)["sequences"]
    return [f"{folder}/{sequence}.json" for sequence in names]
