#!/usr/bin/env python3
"""Writes what a root file system is made of, as CycloneDX: its Debian packages, the crates in Baton's programs, and
what of CUDA's wheels is in them or beside them.

    deploy/docker/sbom.py ROOT

ROOT is as make_rootfs makes it, and gets usr/share/doc/baton/sbom.cdx.json. The same root gives the same bytes.
"""

import json
import pathlib
import re
import sys
import urllib.parse

FILE = "usr/share/doc/baton/sbom.cdx.json"


class SbomError(Exception):
    """What went wrong, and what was expected."""


def field(control, name):
    found = re.search(rf"^{name}: (.+)$", control, re.M)
    return found[1] if found else ""


def debian_component(control, release):
    name, version = field(control, "Package"), field(control, "Version")
    architecture = field(control, "Architecture")
    where = urllib.parse.urlencode({"arch": architecture, "distro": release})
    purl = f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe='')}?{where}"
    source = field(control, "Source") or name
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
            "supplier": {"name": field(control, "Maintainer")},
            "properties": [{"name": "debian:source", "value": source}]}


def wheel_components(root):
    path = root / "usr/lib/baton/wheels.txt"
    pins = [line.split("==") for line in path.read_text().splitlines()] if path.exists() else []
    return [{"type": "library", "bom-ref": f"pkg:pypi/{name}@{version}", "name": name, "version": version,
             "purl": f"pkg:pypi/{name}@{version}"} for name, version in pins]


def sbom(root):
    controls = {path.name: path.read_text(encoding="utf-8") for path in (root / "var/lib/dpkg/status.d").iterdir()}
    ours = sorted(name for name in controls if name in ("baton", "baton-cuda"))
    if len(ours) != 1:
        raise SbomError(f"{root} holds {ours or 'no Baton'}; expected a root that make_rootfs made")
    (package,) = ours
    system = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', (root / "etc/os-release").read_text(), re.M))
    release = f"{system['ID']}-{system['VERSION_ID']}"
    crates = json.loads((root / "usr/share/doc" / package / "crates.cdx.json").read_text())
    debian = [debian_component(controls[name], release) for name in sorted(controls) if name != package]
    baton = {"type": "application", "bom-ref": package, "name": package,
             "version": field(controls[package], "Version"), "licenses": [{"license": {"id": "Apache-2.0"}}]}
    parts = [*debian, *crates, *wheel_components(root)]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": baton},
            "components": [{"type": "operating-system", "bom-ref": release, "name": system["ID"],
                            "version": system["VERSION_ID"]}, *parts],
            "dependencies": [{"ref": package, "dependsOn": [part["bom-ref"] for part in parts]}]}


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(arguments[0])
    try:
        text = json.dumps(sbom(root), indent=1) + "\n"
        (root / FILE).parent.mkdir(parents=True, exist_ok=True)
        (root / FILE).write_text(text, encoding="utf-8")
    except (SbomError, OSError, KeyError, ValueError) as error:
        print(f"deploy/docker/sbom.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
