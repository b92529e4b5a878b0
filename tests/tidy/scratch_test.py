"""Tests write into folders of their own: no test names a place in the temporary folder itself.

A fixed name, and one made of a process id, is one that a killed run has left files under, or that the same test
uses at this moment in another build. In C++ tests/fakes/scratch_folder.h makes such folders, in Python tempfile.
"""

import re
import sys

import source_tree

CPP = re.compile(r"\bTempDir\(\)|\btemp_directory_path\b|\bmk(d|s|os)temp\b|\bte?mpnam\b|TEST_TMPDIR|"
                 r"\bP_tmpdir\b|\"/(var/)?tmp\b|\"/dev/shm\b")
PYTHON = re.compile(r"\bgettempdirb?\(|\bmktemp\(|[\"']/(var/)?tmp\b")
HELPER = "tests/fakes/scratch_folder.h"
# What has another meaning there: the temporary folder inside of a container.
OTHER = {"tests/deploy/image_test.py": "/tmp"}


def found_in(path, text):
    """Lines of a test that name a place of their own choice."""
    pattern = PYTHON if path.endswith(".py") else CPP
    for number, line in enumerate(text.splitlines(), 1):
        match = pattern.search(line)
        if match and not (path in OTHER and OTHER[path] in line):
            yield (f"{path}:{number}: found {match.group(0)}, expected a folder of the test's own: "
                   + ("tempfile.TemporaryDirectory" if path.endswith(".py") else HELPER))


def self_test():
    for planted in ('auto f = ::testing::TempDir() + "log";', "std::filesystem::temp_directory_path()",
                    "mkdtemp(name.data())", 'std::ofstream("/tmp/x")', "std::tmpnam(name)"):
        assert list(found_in("tests/a/b_test.cc", planted)), planted
    for planted in ('open("/tmp/x")', "pathlib.Path('/tmp')", "tempfile.gettempdir()", "tempfile.mktemp()"):
        assert list(found_in("tests/a/b_test.py", planted)), planted
    for right in ("const ScratchFolder folder;", 'folder / "tmp/x"', "TempDirectory dir;"):
        assert not list(found_in("tests/a/b_test.cc", right)), right
    for right in ("tempfile.mkdtemp()", "tempfile.TemporaryDirectory()", "a / 'tmp'"):
        assert not list(found_in("tests/a/b_test.py", right)), right


def main():
    self_test()
    own = source_tree.sources(["tests"], (*source_tree.SUFFIXES, ".py"))
    found = [line for path in own if path.as_posix() not in (HELPER, "tests/tidy/scratch_test.py")
             for line in found_in(path.as_posix(), (source_tree.ROOT / path).read_text())]
    print("\n".join(found) or f"{len(own)} files of tests name no folder of others")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
