"""Cards, reports, figures and live views of what the lab knows: one folder each."""
