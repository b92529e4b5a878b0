"""docs/deploy.md as a new user follows it: its blocks marked `sh`, in one shell, word for word, in an empty directory.

The ports are those of the page, so the shell has a network of its own, for which it takes root.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("BATON_BIN", ROOT / "build/cpu/bin")).resolve()
LIMIT_S = 300
SKIPPED = 77
# ctest's machine has other work: few threads and little memory for each worker. Nothing else is set.
SMALL = {"BATON_THREADS": "1", "BATON_KV_CACHE_MEMORY": "64MiB"}
# What has to come of it: (how often at least, pattern in what was printed).
PRINTED = ((4, r"ended by (length|stop_eos)"), (1, r'"object":"text_completion"'), (1, r"concurrency +\d+ sequences"),
           (1, r'baton_num_requests_waiting\{'))


def blocks():
    page = (ROOT / "docs/deploy.md").read_text()
    found = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)
    assert len(found) >= 5, found
    return "".join(found)


def refused_flags(environment):
    """Flags of `baton serve` that the text of its step names, and that the program does not take."""
    page = (ROOT / "docs/deploy.md").read_text()
    step = re.sub(r"^```.*?^```$", "", page.split("\n## 1. ")[1].split("\n## ")[0], flags=re.M | re.S)
    named = re.findall(r"`(--[^`]+)`", step)
    assert named, step
    return [flags for flags in named if subprocess.run(
        [BIN / "baton", "config", "print", "serve", environment["MODEL"], *flags.split()], capture_output=True, timeout=60,
        check=False, env=environment).returncode != 0]


def isolated():
    """Whether this process may have a network namespace."""
    return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0


def main():
    absent = [name for name in ("baton", "baton-router", "baton-prefill", "baton-decode") if not (BIN / name).is_file()]
    if absent:
        print(f"{BIN} has no {', '.join(absent)}; build the project, or say with BATON_BIN where it was built")
        return 1
    if not isolated():
        print("SKIPPED: a network of its own takes root", file=sys.stderr)
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="baton-deploy-page-") as folder:
        # The shell is the first process of its namespace: whatever it leaves ends with it.
        script = "ip link set lo up\nset -euo pipefail\n" + blocks() + "\necho followed to the end\n"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}
        environment |= {"PATH": f"{BIN}:{os.environ['PATH']}", "MODEL": str(ROOT / "models/demo"), **SMALL}
        refused = refused_flags(environment)
        if refused:
            print(f"baton serve does not take {refused}")
            return 1
        result = subprocess.run(
            ["unshare", "--net", "--pid", "--fork", "--kill-child", "bash", "-c", script], cwd=folder,
            capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment)
        logs = "".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in pathlib.Path(folder).glob("*.log"))
    told = result.stdout + result.stderr
    if result.returncode != 0 or "followed to the end" not in result.stdout:
        print(f"exit code {result.returncode}\n{told}\n{logs}")
        return 1
    missing = [pattern for count, pattern in PRINTED if len(re.findall(pattern, told)) < count]
    if missing:
        print(f"not found: {missing}\n{told}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
