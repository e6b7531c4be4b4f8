"""torch.compile, opened: the card of a report."""
