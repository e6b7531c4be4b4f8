"""`interpreted(answers="gpu")`: what torch says and does meanwhile, as if a GPU were there.

Memory stays the CPU's; what is on "cuda" is a mark on its storage (`marks.py`). Modes of torch
have tensors made, moved and queried accordingly (`functions.py`, `operations.py`), and
`torch.cuda` answers for the target (`answers.py`). Private names of torch's are in
`torch_api/`.
"""
