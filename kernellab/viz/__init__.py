"""Cards, reports, figures and live views of what KernelLab knows: a file for each subject."""
