"""Every command of Baton that a page shows has the flags that it is shown with, every metric that a page names
exists, and pages link to what is there.

Looked at are blocks of code and words in backticks of README.md, docs/*.md and the READMEs of examples and clients.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATON = pathlib.Path(os.environ.get("BATON_BIN", ROOT / "build/cpu/bin")) / "baton"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("examples/**/README.md")),
         ROOT / "clients/python/README.md"]
# The Python package, a library, and what a page has grep look for.
NO_METRICS = {"baton_client", "baton_placement", "baton_num_requests"}
COMMAND = re.compile(r"(?:^|[\s;&|(])(?:build/\w+/bin/)?(baton(?:-(?:router|prefill|decode)\b|\s+[a-z][a-z-]*(?:\s+[a-z][a-z-]*)?))"
                     r"(?![\w-])(.*)")


def known_flags():
    """{command: its flags}, from `baton flags list`: `serve`, `baton-router`, `eos tail`, …"""
    page = subprocess.run([BATON, "flags", "list", "--markdown"], capture_output=True, text=True, timeout=60,
                          check=True).stdout
    known = {}
    for usage, takers in re.findall(r"^\| `([^`]*)` \| ([^|]*) \|", page, re.M):
        for command in takers.strip().split(", "):
            known.setdefault(command, set()).update(re.findall(r"--([a-z0-9-]+)", usage))
    return known


def lines_of(text):
    """(number, line) of all code of a page; continued lines are one."""
    inside, code = False, []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        elif inside:
            if code and code[-1][1].endswith("\\"):
                code[-1] = (code[-1][0], code[-1][1][:-1] + line)
            else:
                code.append((number, line))
        else:
            code += [(number, words) for words in re.findall(r"`([^`]+)`", line) if words.startswith("baton")]
    return code


def command_of(words, known):
    """The name that `flags list` has for it; None for what is no command, as `baton config`, which takes another's."""
    words = words.split()
    if words[0] != "baton":
        return words[0]
    for name in (" ".join(words[1:3]), words[1]):
        if name in known:
            return name
    return None


def wrong_flags(line, known):
    """(command, flag) of each flag in a line that its command does not have."""
    wrong = []
    for piece in re.split(r"\s\|\s|;\s|&&|\s#\s|\)", line):
        match = COMMAND.search(piece)
        command = match and command_of(match[1], known)
        if command:
            given = re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", match[2])
            # Every command has --help; a switch can be turned off.
            wrong += [(command, flag) for flag in given
                      if flag not in known[command] | {"help"} and flag.removeprefix("no-") not in known[command]]
    return wrong


def prose_behind(line):
    """Whether words that a shell would take for arguments stand behind a command, apart from it."""
    return bool(re.match(r"(?:build/\w+/bin/)?baton(?:-\w+)? |scripts/", line) and re.search(r"\S {3,}[^-#\s\\|]", line))


def unknown_metrics(text, known):
    """Names of series in a page that no process has; a name that ends in * stands for several."""
    named = set(re.findall(r"(?<![\w/:.])baton_[a-z0-9_]+(?![\w*])", text))
    return sorted(name for name in named - NO_METRICS
                  if name not in known and re.sub(r"_(bucket|sum|count)$", "", name) not in known)


def broken_links(path, text):
    """Targets of a page's links to files of this tree, and to headings of them, that are not there."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, heading = target.partition("#")
        there = path if not file else (path.parent / file).resolve()
        if not there.exists():
            broken.append(target)
        elif heading and there.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", there.read_text(), re.M)
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            if heading not in anchors:
                broken.append(target)
    return broken


def main():
    known = known_flags()
    assert {"serve", "baton-router", "generate", "eos tail"} <= set(known), known.keys()
    assert wrong_flags("baton generate --promt x | tee", known) == [("generate", "promt")]
    assert wrong_flags("build/cpu/bin/baton-router DIR --no-insecure --port 1", known) == []
    assert prose_behind("baton sim --rate 8    one worker") and not prose_behind("baton sim --rate 8    # one worker")
    assert broken_links(PAGES[0], "[a](docs/none.md) [b](docs/http.md#keys) [c](docs/http.md#no)") == [
        "docs/none.md", "docs/http.md#no"]
    metrics = {one["name"] for one in json.loads(subprocess.run(
        [BATON, "metrics", "list", "--json"], capture_output=True, text=True, timeout=60, check=True).stdout)}
    assert unknown_metrics("`baton_attempts_total` baton_tries baton_http_*", metrics) == ["baton_tries"]
    seen, complaints = 0, []
    for path in PAGES:
        text = path.read_text()
        for number, line in lines_of(text):
            seen += 1
            complaints += [f"{path.relative_to(ROOT)}:{number}: {command} has no --{flag}: {line}"
                           for command, flag in wrong_flags(line, known)]
        complaints += [f"{path.relative_to(ROOT)}:{number}: prose without # behind a command: {line}"
                       for number, line in lines_of(text) if prose_behind(line)]
        complaints += [f"{path.relative_to(ROOT)}: no metric {name}" for name in unknown_metrics(text, metrics)]
        complaints += [f"{path.relative_to(ROOT)}: no such target: {target}" for target in broken_links(path, text)]
    print("\n".join(complaints) or f"{seen} pieces of code on {len(PAGES)} pages are as the binaries have it")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
