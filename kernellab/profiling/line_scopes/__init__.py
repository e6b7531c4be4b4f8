"""Cycles of every line of a kernel that no one edited: the clock is read between the operations of
its final TTGIR, and what one launch of that noted is summed by line.
"""
