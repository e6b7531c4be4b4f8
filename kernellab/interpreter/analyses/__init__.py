"""What is found out about the IR before code is made of it."""
