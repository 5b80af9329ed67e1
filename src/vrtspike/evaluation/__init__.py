"""Trained models on a test split: metrics, protocols, example pictures, published results."""
