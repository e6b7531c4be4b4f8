"""Shared and tensor memory over the operations of a program."""
