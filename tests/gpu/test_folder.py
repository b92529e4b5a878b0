"""A test with a folder and an environment of its own, and a run of tests/gpu/run for the parts of one."""

import os
import pathlib
import stat
import sys
import tempfile
import unittest

import gpu_run
import sizes


def context(device="cpu", **values):
    made = gpu_run.Context(device, None, {}, {}, sys.executable, pathlib.Path("."), pathlib.Path("model"),
                           sizes.of(device))
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write_program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def set_environment(self, **values):
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(values)
