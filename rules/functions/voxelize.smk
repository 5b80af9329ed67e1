"""What a store depends on."""


def manifest_before(wildcards):
    """The ingest manifest of a sequence."""
    store = f"{RESULTS}/data/{{dataset}}/k{{bins}}/{{split}}/{{sequence}}.json"
    store = store.format(**wildcards)
    if is_cut(store):
        make_again(store)
    ingested = f"{RESULTS}/data/{{dataset}}/ingest/{{split}}/{{sequence}}.json"
    return ingested.format(**wildcards)
