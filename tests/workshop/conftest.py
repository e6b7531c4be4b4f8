"""What pytest does not collect here."""

collect_ignore = ["solutions.ipynb"]
"""test_solutions.py answers its cells, without a notebook's kernel."""
