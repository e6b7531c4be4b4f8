"""The course of a sweep: what is tried, with which arguments, and what becomes of it."""
