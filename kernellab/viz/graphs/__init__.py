"""torch.compile, opened: a report, its levels, and its call compared and timed."""
