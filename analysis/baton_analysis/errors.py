class InputError(Exception):
    """A file that is not what was expected: names it, what was found, and what to do."""
