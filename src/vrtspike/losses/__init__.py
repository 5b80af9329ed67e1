"""The terms of the loss, a module each; :mod:`vrtspike.losses.registry` lists them."""
