"""Experiment trackers: one small interface, TensorBoard and MLflow behind it."""
