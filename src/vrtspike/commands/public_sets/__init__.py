"""The public data sets, and the comparison of a folder with one of them."""
