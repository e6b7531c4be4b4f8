"""What the compiler's modules show of a kernel: one file per subject."""
