"""Passes of the pipeline: recorded, steered, explained."""
