"""``python -m vrtspike`` is the command ``vrtspike``."""

from vrtspike.main import main

main()
