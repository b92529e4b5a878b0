#!/usr/bin/env python3
"""Writes what of others is compiled into the programs: crates, and headers of Debian packages.

    deploy/package/notices.py FOLDER

FOLDER gets THIRD-PARTY, the notices, where a text that several share stands once, and crates.cdx.json, the crates
as components of CycloneDX. Shared libraries are packages of their own and bring their notices.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "common/rust/Cargo.toml"
NOTICE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE)", re.IGNORECASE)
PACKAGES = ROOT / "scripts/lib.sh"
CARGO = os.environ.get("CARGO", "cargo")


class NoticesError(Exception):
    """What went wrong, and what to do."""


def crates():
    """What Cargo knows of each crate that is linked, without ours."""
    command = [CARGO, "metadata", "--locked", "--offline", "--format-version", "1",
               "--filter-platform", "x86_64-unknown-linux-gnu", "--manifest-path", str(MANIFEST)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if result.returncode != 0:
        raise NoticesError(f"{' '.join(command)} failed:\n{result.stderr.strip()}")
    known = json.loads(result.stdout)
    # By what it is linked with: build scripts, macros and tests are not in the programs.
    edges = {node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
             for node in known["resolve"]["nodes"]}
    packages = {one["id"]: one for one in known["packages"]}
    seen, line = set(), [known["resolve"]["root"]]
    while line:
        crate = line.pop()
        if crate in seen or any("proc-macro" in target["kind"] for target in packages[crate]["targets"]):
            continue
        seen.add(crate)
        line += edges[crate]
    found = [packages[one] for one in seen if packages[one]["source"] is not None]
    return sorted(found, key=lambda one: (one["name"], one["version"]))


def components(found):
    """As CycloneDX has them."""
    return [{"type": "library", "bom-ref": f"pkg:cargo/{crate['name']}@{crate['version']}", "name": crate["name"],
             "version": crate["version"], "purl": f"pkg:cargo/{crate['name']}@{crate['version']}",
             **({"licenses": [{"expression": crate["license"].replace("/", " OR ")}]} if crate["license"] else {})}
            for crate in found]


def headers():
    """The Debian packages that bring headers. Some hold mere declarations; their notices do no harm."""
    listed = re.search(r"^readonly build_packages=\((.*?)\)", PACKAGES.read_text(encoding="utf-8"), re.M | re.S)
    # What spdlog's headers include.
    return sorted(["libfmt-dev", *(name for name in listed[1].split() if name.endswith("-dev"))])


def texts(linked):
    """{text: [whose it is]}, in a settled order."""
    found = collections.defaultdict(list)
    for crate in linked:
        name = f"crate {crate['name']} {crate['version']} ({crate['license'] or 'see the text'})"
        files = [path for path in sorted(pathlib.Path(crate["manifest_path"]).parent.iterdir())
                 if path.is_file() and NOTICE.match(path.name)]
        for text in [path.read_text(encoding="utf-8", errors="replace") for path in files] or [""]:
            found[text.strip()].append(name)
    for package in headers():
        path = pathlib.Path("/usr/share/doc") / package / "copyright"
        if not path.exists():
            raise NoticesError(f"{path} is not there; install {package}, or take away what excludes its documents")
        found[path.read_text(encoding="utf-8", errors="replace").strip()].append(f"Debian package {package}")
    return found


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(arguments[0])
    try:
        linked = crates()
        parts = [f"{'=' * 100}\n" + "\n".join(names) + f"\n{'-' * 100}\n" + (text or "It brings no text of its own.")
                 for text, names in texts(linked).items()]
    except (NoticesError, OSError, subprocess.SubprocessError) as error:
        print(f"deploy/package/notices.py: {error}", file=sys.stderr)
        return 1
    (folder / "THIRD-PARTY").write_text(
        "What of others' work is compiled into the programs, and under which licences.\n" + "\n".join(parts) + "\n",
        encoding="utf-8")
    (folder / "crates.cdx.json").write_text(json.dumps(components(linked), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
