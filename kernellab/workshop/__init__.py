"""Exercises that check a student's kernel and show where it goes wrong."""
