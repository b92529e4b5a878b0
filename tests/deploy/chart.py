"""Renders the Helm chart as a user would, and finds things in what comes out.

The folder that scripts/kube_tools made is the environment variable BATON_KUBE_TOOLS, that with the
binaries BATON_BIN.
"""

import os
import pathlib
import subprocess
import sys
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
CHART = ROOT / "deploy/helm/baton"
TOOLS = pathlib.Path(os.environ.get("BATON_KUBE_TOOLS", ROOT / "build/kube-tools"))
BIN = pathlib.Path(os.environ.get("BATON_BIN", ROOT / "build/cpu/bin"))
HELM = TOOLS / "bin/helm"
NEWEST_KUBERNETES = "1.37.0"
RELEASE, NAMESPACE = "rel", "llm"
# ctest takes this exit code for "skipped".
SKIPPED = 77
# The least that the chart has to be told.
LEAST = ("image.repository=registry.example.org/baton", "image.tag=v1", "model.name=demo",
         "model.existingClaim=models")

# The sets whose manifests lie in golden/: the examples, one for what they do not use, and one of odd names.
VALUE_SETS = {path.stem: path for folder in (CHART / "examples", HERE / "values")
              for path in sorted(folder.glob("*.yaml"))}

if not HELM.exists():
    print(f"SKIPPED: there is no {HELM}; scripts/kube_tools makes it, for which it needs Go")
    sys.exit(SKIPPED)


def helm(*arguments):
    return subprocess.run([str(HELM), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False)


def template(values=(), settings=(), texts=(), jsons=(), kubernetes=NEWEST_KUBERNETES, chart=CHART, release=RELEASE,
             namespace=NAMESPACE):
    """`helm template` with files of values, with --set NAME=VALUE, --set-string and --set-json; the finished process."""
    options = [part for path in values for part in ("--values", path)]
    options += [part for setting in settings for part in ("--set", setting)]
    options += [part for text in texts for part in ("--set-string", text)]
    options += [part for one in jsons for part in ("--set-json", one)]
    return helm("template", release, chart, "--namespace", namespace, "--kube-version", kubernetes,
                *options)


def render(values=(), settings=(), **options):
    """The text of the manifests; an AssertionError with helm's words if there are none."""
    result = template(values, settings, **options)
    assert result.returncode == 0, f"helm template failed:\n{result.stderr}"
    return result.stdout


def manifests(text):
    return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]


def find(documents, kind, name=None):
    """The only document of this kind, or of this kind and name."""
    found = [one for one in documents
             if one["kind"] == kind and name in (None, one["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} documents {kind} {name or ''}, expected 1"
    return found[0]


def pods(documents):
    """[(role, pod spec)]; the role of the pod of `helm test` is test."""
    found = []
    for one in documents:
        if one["kind"] in ("Deployment", "Pod"):
            spec = one["spec"]["template"]["spec"] if one["kind"] == "Deployment" else one["spec"]
            found.append((one["metadata"]["labels"]["app.kubernetes.io/component"], spec))
    return found


class RenderedSets(unittest.TestCase):
    """For tests of what all sets of values become: name -> documents."""

    @classmethod
    def setUpClass(cls):
        cls.sets = {name: manifests(render([values]))
                    for name, values in VALUE_SETS.items()}

    def pods(self):
        """Every (role, pod spec) of every set, those of `helm test` left out."""
        for documents in self.sets.values():
            for role, spec in pods(documents):
                if role != "test":
                    yield role, spec
