"""Exercises that answer: what a student's kernel does, and where it goes wrong."""
