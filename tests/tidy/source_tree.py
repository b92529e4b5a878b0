"""The C++ sources of the project, as git or the file system lists them."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("common", "kernels", "router", "prefill_worker", "decode_worker", "tools", "tests")
SUFFIXES = (".h", ".cc", ".cuh", ".cu")


def sources(folders=FOLDERS, suffixes=SUFFIXES):
    """Paths relative to the root, sorted."""
    found = []
    for folder in folders:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in suffixes and path.is_file():
                found.append(path.relative_to(ROOT))
    return sorted(found)
