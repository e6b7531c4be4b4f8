"""What optimisations of torch.compile are worth: the cards."""
