"""Results to the page that people show, one file, offline; a run as a folder to give away."""
