"""What the compiler says about a kernel, tied to its lines."""
