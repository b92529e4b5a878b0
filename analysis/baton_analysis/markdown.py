"""Tables, and pages of which marked parts are written anew."""

import os
import re


def table(head: list[str], rows: list[list[str]]) -> str:
    line = lambda cells: "| " + " | ".join(cells) + " |"
    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def write_page(path: str, sections: dict[str, str]):
    """Puts each section between its marks in the page, or behind everything where there are none yet."""
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as content:
            text = content.read()
    for name, content in sections.items():
        marked = f"<!-- {name} -->\n{content.strip()}\n<!-- end {name} -->"
        pattern = re.compile(f"<!-- {name} -->.*?<!-- end {name} -->", re.DOTALL)
        if pattern.search(text):
            text = pattern.sub(lambda _: marked, text)
        else:
            text = f"{text}\n{marked}\n" if text else f"{marked}\n"
    with open(path, "w", encoding="utf-8") as content:
        content.write(text)
