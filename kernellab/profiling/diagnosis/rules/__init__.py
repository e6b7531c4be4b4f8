"""The rules: one reason why kernels are slow a file, or a few that look at the same.

    @rule("spills")
    def spills(evidence: Evidence) -> Iterator[CostFinding]: ...

Nothing has to list them: the files of this folder are imported when the first kernel is diagnosed.
"""
