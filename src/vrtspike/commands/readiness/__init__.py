"""The checks of ``vrtspike doctor``: of the machine and of the project."""
