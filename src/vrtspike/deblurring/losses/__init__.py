"""The terms of the loss, a file each; :mod:`vrtspike.deblurring.losses.registry` names them."""
