"""The page: one HTML file that needs nothing else and can be read on a phone."""

import base64
import html

_STYLE = """
:root { color-scheme: light }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 860px;
       margin: 0 auto; padding: 12px }
h1 { font-size: 1.5em; line-height: 1.2; margin: .4em 0 }
h2 { font-size: 1.15em; margin: 2em 0 .4em; line-height: 1.25 }
p, ul, dl { margin: .4em 0 }
figure { margin: .6em 0 1.2em }
figure div, .wide { overflow-x: auto }
figure img { display: block; width: 100%; min-width: 560px; height: auto }
figcaption { margin-top: .2em }
table { border-collapse: collapse; font-size: .92em; margin: .5em 0 }
th, td { text-align: right; padding: .15em .7em; border-bottom: 1px solid #e4e4e4;
         white-space: nowrap }
th { color: #666; font-weight: 600 }
th:first-child, td:first-child { text-align: left; padding-left: 0 }
dt { font-weight: 600 } dd { margin: 0 0 .4em }
.note { background: #fff6e0; border-left: 4px solid #e69f00; padding: .5em .9em }
.grey { color: #666 }
nav a { display: inline-block; margin-right: 1em }
"""


class Page:
    """Parts in the order in which they were added. Texts are escaped."""

    def __init__(self, title: str):
        self._title = title
        self._parts = []
        self._headings = []

    def heading(self, text: str):
        self._headings.append(text)
        self._parts.append(f'<h2 id="s{len(self._headings)}">{html.escape(text)}</h2>')

    def paragraph(self, text: str, kind: str = ""):
        mark = f' class="{kind}"' if kind else ""
        self._parts.append(f"<p{mark}>{html.escape(text)}</p>")

    def notes(self, items: list[str]):
        body = "".join(f"<li>{html.escape(item)}</li>" for item in items)
        self._parts.append(f'<div class="note"><ul>{body}</ul></div>')

    def words(self, words: dict[str, str]):
        body = "".join(f"<dt>{html.escape(word)}</dt><dd>{html.escape(meaning)}</dd>"
                       for word, meaning in words.items())
        self._parts.append(
            f"<details><summary>The words of this page</summary><dl>{body}</dl></details>")

    def table(self, head: list[str], rows: list[list[str]]):
        lines = ["".join(f"<th>{html.escape(cell)}</th>" for cell in head)]
        lines += ["".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) for row in rows]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        self._parts.append(f'<div class="wide"><table>{body}</table></div>')

    def picture(self, png: bytes, caption: str):
        data = base64.b64encode(png).decode("ascii")
        text = html.escape(caption)
        self._parts.append(
            f'<figure><div><img alt="{text}" src="data:image/png;base64,{data}"></div>'
            f"<figcaption>{text}</figcaption></figure>")

    def html(self) -> str:
        title = html.escape(self._title)
        links = "".join(f'<a href="#s{number}">{html.escape(text)}</a>'
                        for number, text in enumerate(self._headings, start=1))
        body = "\n".join(self._parts)
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n<nav>{links}</nav>\n{body}\n"
            "</body></html>\n")
