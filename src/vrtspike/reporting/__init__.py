"""Results to the page that people show: one file, offline."""
