"""The terms of the loss, a file each; :mod:`vrtspike.losses.registry` names them."""
