"""The options of `kernellab profile` and `kernellab view`: quick to import, for the help."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_profile_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kernellab profile`."""
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help=_OUTPUT)
    parser.add_argument(
        "--mode", choices=("pcsampling",), help="Proton samples the lines of kernels, on a GPU"
    )
    parser.add_argument(
        "--context", choices=("shadow", "python"), default="shadow", help="python: frames too"
    )
    add_tree_options(parser)
    parser.add_argument("script", metavar="SCRIPT", help="a Python file, which is run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


_OUTPUT = "where the profile goes: p.hatchet is Proton's form, p.speedscope.json speedscope's"


def add_tree_options(parser: argparse.ArgumentParser) -> None:
    """How a profile is printed."""
    parser.add_argument("-m", "--metrics", metavar="METRICS", help="time/ms,tflop16/s: as a tree")
    parser.add_argument("-i", "--include", metavar="PATTERN", help="only paths through such names")
    parser.add_argument("-e", "--exclude", metavar="PATTERN", help="without such names")
    parser.add_argument("-t", "--threshold", metavar="N", type=float, help="of the first metric")
    parser.add_argument("-d", "--depth", metavar="N", type=int, help="levels of the tree")


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kernellab view`."""
    parser.add_argument("file", metavar="FILE", help="p.hatchet, or whatever kernellab.load opens")
    parser.add_argument("--diff", metavar="FILE", help="another profile: this one less that one")
    parser.add_argument("-l", "--list", action="store_true", help="list the metrics")
    add_tree_options(parser)
