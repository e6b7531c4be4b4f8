"""Profiles as files: our own form, Proton's, speedscope's, Chrome's."""
