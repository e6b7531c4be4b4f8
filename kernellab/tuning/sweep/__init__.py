"""Run a sweep: choose the configs, prepare their launches, and collect their outcomes."""
