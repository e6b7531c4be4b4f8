"""Cards, reports, figures and live views of what the lab knows: a file for each subject."""
