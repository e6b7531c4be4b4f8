"""The stepper: the steps of a trace."""
