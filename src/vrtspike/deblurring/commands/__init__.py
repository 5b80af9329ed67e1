"""Commands of ``vrtspike`` that are about videos (:mod:`vrtspike.commands`)."""
