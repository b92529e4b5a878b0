"""The JSON schemas of others that scripts/kube_tools took from Go modules."""

import json
import os
import pathlib

import jsonschema

import packages

FOLDER = pathlib.Path(os.environ.get("BATON_KUBE_TOOLS", packages.ROOT / "build/kube-tools")) / "schemas"
MISSING = f"there is no {FOLDER}; scripts/kube_tools makes it, for which it needs Go"


def errors(document, name):
    """What is wrong with the document by the schema of that file, which may name its neighbours."""
    known = {path.name: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
    store = {schema["$id"]: schema for schema in known.values() if "$id" in schema}
    validator = jsonschema.validators.validator_for(known[name])
    resolver = jsonschema.RefResolver.from_schema(known[name], store=store)
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
            for error in validator(known[name], resolver=resolver).iter_errors(document)]
