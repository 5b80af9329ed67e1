"""Atomic files, digests, locks, manifests, frames and files of weights."""
