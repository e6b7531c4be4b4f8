"""How long a launch takes, estimated from what is counted, with no GPU."""
