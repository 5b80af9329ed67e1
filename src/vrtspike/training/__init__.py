"""Training: an objective-agnostic loop and the parts it is made of."""
