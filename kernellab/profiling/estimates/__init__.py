"""The time of a launch, estimated from counts, without a GPU."""
