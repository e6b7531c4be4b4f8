"""One launch of any kernel: TileKernel, dispatch to the interpreter or the GPU, interception,
copies of arguments.
"""
