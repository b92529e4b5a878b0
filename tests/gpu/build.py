"""The programs under test: a build tree, or what tests/gpu/pack made of one.

Both are seen the same way: programs by name, tests by label, and the environment they need.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACK = ROOT / "build/gpu-pack.tar.xz"
MANIFEST = "manifest.json"


class BuildError(Exception):
    """What is not there, and how to get it."""


@dataclasses.dataclass(frozen=True)
class Test:
    name: str
    path: str
    labels: tuple


class Build:
    def __init__(self, root, tests, info, origin):
        self.root, self.tests, self.info, self.origin = pathlib.Path(root), tests, info, origin

    @property
    def bin(self):
        return self.root / "bin"

    def program(self, name):
        """Path of a binary or test by name, or None."""
        for path in [self.bin / name, self.root / "tests" / name,
                     *(pathlib.Path(test.path) for test in self.tests if test.name == name)]:
            if path.exists():
                return path
        return None

    def labelled(self, label):
        return [test for test in self.tests if label in test.labels and os.path.exists(test.path)]

    def environment(self, libraries=()):
        """The environment of our own processes; other programs have libraries of their own."""
        folders = [str(self.root / "lib")] if (self.root / "lib").is_dir() else []
        folders += dict.fromkeys(str(path.parent) for path in libraries)
        folders += [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
        environment = {"BATON_BIN": str(self.bin), "BATON_SOURCE_DIR": str(ROOT),
                       "GOMP_SPINCOUNT": "1000"}
        if folders:
            environment["LD_LIBRARY_PATH"] = ":".join(folders)
        return environment


def ctest_tests(folder):
    """All tests of a build tree, also those that are disabled or not built."""
    result = subprocess.run(["ctest", "--test-dir", str(folder), "--show-only=json-v1"],
                            capture_output=True, text=True, timeout=120, check=False)
    if result.returncode != 0:
        raise BuildError(f"ctest in {folder} ended with {result.returncode}: {result.stderr[-500:]}")
    tests = []
    for entry in json.loads(result.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        command = entry.get("command") or [str(pathlib.Path(folder) / "tests" / entry["name"])]
        if len(command) == 1:  # a test binary; scripts have arguments
            path = command[0] if os.path.isabs(command[0]) else str(
                pathlib.Path(folder) / "tests" / entry["name"])
            tests.append(Test(entry["name"], path, tuple(properties.get("LABELS", ()))))
    return tests


def open_tree(folder):
    folder = pathlib.Path(folder).resolve()
    if not (folder / "bin/baton").exists():
        raise BuildError(f"{folder} has no bin/baton; build it (cmake --preset {folder.name} && cmake --build "
                         f"{folder}), or name another with --build")
    return Build(folder, ctest_tests(folder), {"commit": git_commit()}, str(folder))


def open_pack(file, into):
    """Unpacks a pack into the folder `into`."""
    into = pathlib.Path(into)
    try:
        with tarfile.open(file) as archive:
            for member in archive.getmembers():
                if not member.isfile() or member.name.startswith("/") or ".." in member.name.split("/"):
                    raise BuildError(f"{file} holds {member.name}; expected plain files of tests/gpu/pack")
            archive.extractall(into)
        manifest = json.loads((into / MANIFEST).read_text())
    except (OSError, tarfile.TarError, ValueError, EOFError) as error:
        why = str(error).splitlines()[0]
        raise BuildError(f"{file} cannot be unpacked: {why} make it again with tests/gpu/pack") from error
    tests = [Test(t["name"], str(into / "tests" / t["name"]), tuple(t["labels"])) for t in manifest["tests"]]
    return Build(into, tests, manifest["info"], str(file))


def find_build(device, named, into):
    """The build to test: the one named, else the pack, else the preset's build tree."""
    if named is None:
        named = PACK if device == "cuda" and PACK.exists() else ROOT / "build" / (
            "cuda" if device == "cuda" else "cpu")
    named = pathlib.Path(named)
    if named.is_dir():
        return open_tree(named)
    if named.exists():
        return open_pack(named, into)
    raise BuildError(f"{named} is not there; build preset {'cuda' if device == 'cuda' else 'cpu'}, or bring the "
                     "file that tests/gpu/pack makes, or name either with --build")


def git_commit():
    """The commit of the working tree, with a mark when it has changes; '' outside of a clone."""
    try:
        result = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"],
                                capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
