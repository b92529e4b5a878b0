"""What the tests of packages and image share: packages as cpack makes them from the build, unpacked or in an image."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKER = ROOT / "deploy/docker"
BUILD = pathlib.Path(os.environ.get("BATON_BIN", ROOT / "build/cpu/bin")).parent
LIMIT_S = 200  # of one command
SKIP = 77


def skip(why):
    """Ends the test as ctest understands it."""
    print(f"SKIPPED: {why}", flush=True)
    sys.exit(SKIP)


def call(*command, environment=None, check=True):
    """What the command prints; fails with what it says."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False,
                            timeout=LIMIT_S, env={**os.environ, **(environment or {})})
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {result.returncode}:\n"
                             f"{result.stdout}{result.stderr}")
    return result


def cpack(folder):
    """Packs the build into `folder`; {name: path} of the packages."""
    for tool in ("cpack", "dpkg-shlibdeps", "dpkg-deb", "file"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not in the PATH (Debian: cmake, dpkg-dev, file)")
    call("cpack", "-G", "DEB", "-B", folder, "--config", BUILD / "CPackConfig.cmake")
    return {path.name.split("_")[0]: path for path in pathlib.Path(folder).glob("*.deb")}


class Image:
    """An image that make_image made from packages, in a store of its own, and a container's files from it."""

    NAME = "baton:test"

    def __init__(self, packages, folder):
        folder = pathlib.Path(folder)
        (folder / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n')
        self._environment = {"CONTAINERS_STORAGE_CONF": str(folder / "storage.conf")}
        made = call(DOCKER / "make_image", packages, self.NAME, environment=self._environment, check=False)
        if made.returncode == SKIP:
            skip(made.stderr.strip())
        if made.returncode != 0:
            raise AssertionError(f"make_image failed:\n{made.stderr}")
        known = json.loads(self._buildah("inspect", "--type", "image", self.NAME))
        self.settings = known["Docker"]["config"]
        container = self._buildah("from", "--pull-never", self.NAME)
        self.files = pathlib.Path(self._buildah("mount", container))

    def _buildah(self, *arguments):
        return call("buildah", *arguments, environment=self._environment).stdout.strip()
