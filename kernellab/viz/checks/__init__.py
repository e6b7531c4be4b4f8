"""What a check found."""
