"""The part of `spdl advise` that runs inside the job: it measures PyTorch's loaders and changes nothing else.

It is loaded by its path, as `_spdl_probe`, into whatever Python the job has. So it imports the standard library alone,
and from PyTorch only what the job has imported already.
"""
