"""Profiles as files: our own form, Proton's, Chrome's, and speedscope's to write."""
