"""Answers to exercises, and how far a student has come."""
