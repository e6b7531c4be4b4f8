"""Why a kernel is slow: findings ranked by what they cost, each with its evidence and advice."""
