"""Which stores make a dataset."""

from vrtspike.deblurring.data.manifests import DATASET


@user_errors()
def store_shares(wildcards):
    """The stores of every sequence that was accepted, share by share."""
    folder = f"{RESULTS}/data/{wildcards.dataset}/k{wildcards.bins}"
    renew_damaged(f"{folder}/dataset.json", DATASET)
    return share_files(dataset_of(wildcards), folder)
