"""Holds manifests against the schemas of Kubernetes and of custom resources, strictly.

Schemas are what scripts/kube_tools took from the projects' own modules. A field that a schema does not
name is an error, as it is for an API server that is asked for strict validation.
"""

import functools
import json

import jsonschema
import yaml

import chart

INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
# Written as text or as a number; what form the text has, the API server's code decides.
QUANTITY = {"anyOf": [{"type": "number"},
                      {"type": "string", "pattern": r"^[+-]?[0-9.]+([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"}]}
QUANTITY_NAME = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def strict(schema):
    """A schema of OpenAPI as one of JSON Schema that refuses unknown fields."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return INT_OR_STRING
    made = {key: ({name: strict(one) for name, one in value.items()} if key == "properties"
                  else strict(value)) for key, value in schema.items() if key != "description"}
    open_ended = ("additionalProperties", "x-kubernetes-preserve-unknown-fields")
    if "properties" in made and not any(key in made for key in open_ended):
        made["additionalProperties"] = False
    return made


@functools.lru_cache(maxsize=None)
def versions():
    """The versions of Kubernetes whose schemas there are."""
    return sorted(path.stem for path in (chart.TOOLS / "kubernetes").glob("*.json"))


@functools.lru_cache(maxsize=None)
def _kubernetes(version):
    """All definitions, and which of them is that of an (apiVersion, kind)."""
    text = (chart.TOOLS / "kubernetes" / f"{version}.json").read_text()
    definitions = strict(json.loads(text)["definitions"])
    definitions[QUANTITY_NAME] = QUANTITY
    kinds = {}
    for name, definition in definitions.items():
        for one in definition.get("x-kubernetes-group-version-kind", []):
            api = "/".join(part for part in (one["group"], one["version"]) if part)
            kinds[api, one["kind"]] = name
    return definitions, kinds


@functools.lru_cache(maxsize=None)
def _custom():
    """Schemas of custom resources by (apiVersion, kind)."""
    found = {}
    for path in (chart.TOOLS / "crds").glob("*.yaml"):
        definition = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["spec"]
        for one in definition["versions"]:
            schema = strict(one["schema"]["openAPIV3Schema"])
            found[f"{definition['group']}/{one['name']}", definition["names"]["kind"]] = schema
    return found


@functools.lru_cache(maxsize=None)
def _validator(version, api, kind):
    if (api, kind) in _custom():
        return jsonschema.Draft4Validator(_custom()[api, kind])
    definitions, kinds = _kubernetes(version)
    if (api, kind) not in kinds:
        return None
    return jsonschema.Draft4Validator({"$ref": f"#/definitions/{kinds[api, kind]}",
                                       "definitions": definitions})


def errors(document, version):
    """What is wrong with a manifest, a line each."""
    api, kind = document.get("apiVersion"), document.get("kind")
    validator = _validator(version, api, kind)
    where = f"{kind} {document.get('metadata', {}).get('name')} with Kubernetes {version}"
    if validator is None:
        return [f"{where}: there is no {kind} of {api}"]
    return [f"{where}: {'.'.join(map(str, error.absolute_path))}: {error.message[:300]}"
            for error in validator.iter_errors(document)]
