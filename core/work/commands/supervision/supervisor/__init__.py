"""The supervisor's own process: the standard library and nothing else, so that it starts fast.

It is called by the path of `__main__.py`, in isolation (`-I -S`): neither the variables of the
caller nor files beside a job can change what is imported here.
"""
