"""What stores depend on."""


def ingested_before(wildcards):
    """What the check of the same share found."""
    return f"{RESULTS}/data/{wildcards.dataset}/ingest/shares/{wildcards.share}.json"


def stores_asked(wildcards, resources=None):
    """As `checks_asked`, for the stores."""
    return json_digest([*code("voxelize.py"), dataset_of(wildcards).root])


@user_errors()
def accepted_before(wildcards):
    """The gate, as what comes before a store.

    Where it lets all sequences pass or none only the order counts: one sequence checked again
    concerns no other. Where it leaves some out, those of any share may come and go.
    """
    folder = f"{RESULTS}/data/{wildcards.dataset}/k{wildcards.bins}"
    dataset, share = dataset_of(wildcards), wildcards.share
    standing = SHARES.store_standing(
        dataset, int(wildcards.bins), share, stores_asked(wildcards)
    )
    if standing.reason:
        make_again(f"{folder}/shares/{share}.json", standing.reason)
    path = f"{folder}/accepted.json"
    return path if standing.due or dataset.on_error != "stop" else ancient(path)
