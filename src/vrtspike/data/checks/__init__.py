"""Checks of a sequence and of a data set before its stores are built."""
