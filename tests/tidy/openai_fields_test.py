"""docs/openai.md names every field of the OpenAI protocol that the router knows, and no other."""

import re
import sys

import source_tree

ROOM = source_tree.ROOT / "router/openai"


def known_fields():
    """The names in the tables of fields."""
    fields = set(re.findall(r'^    \{"([a-z_]+)", Take', (ROOM / "openai_request.cc").read_text(), re.M))
    lacking = (ROOM / "lacking_fields.cc").read_text()
    fields |= set(re.findall(r'^    \{"([a-z_]+)", \{', lacking, re.M))
    [idle] = re.findall(r"kIdle\[\] = \{(.*?)\};", lacking, re.S)
    return fields | set(re.findall(r'"([a-z_]+)"', idle))


def documented_fields():
    """What stands in the first column of the table "Fields"."""
    [section] = re.findall(r"^## Fields$(.*?)^## ", (source_tree.ROOT / "docs/openai.md").read_text(),
                           re.M | re.S)
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])}


if __name__ == "__main__":
    known, documented = known_fields(), documented_fields()
    assert len(known) > 70, known
    for name in sorted(known ^ documented):
        print(f"{name}: " + ("not in docs/openai.md" if name in known else "no field of router/openai"))
    sys.exit(1 if known ^ documented else 0)
