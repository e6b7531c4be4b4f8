"""Where eager torch and what torch.compile made of a call part: the card."""
