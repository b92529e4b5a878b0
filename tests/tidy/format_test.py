"""clang-format, line length, and things that do not belong in code."""

import re
import subprocess
import sys

import source_tree

LEFTOVERS = re.compile(r"\bTODO\b|\bFIXME\b|\bXXX\b|DISABLED_|GTEST_SKIP|SKIP_TEST")


def main():
    files = source_tree.sources()
    failures = []
    result = subprocess.run(
        ["clang-format", "--dry-run", "-Werror", *map(str, files)],
        cwd=source_tree.ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        bad = sorted({line.split(":")[0] for line in result.stderr.splitlines() if "error:" in line})
        failures += [f"{path}: not formatted; run clang-format -i {path}" for path in bad]
        if not bad:
            failures.append(result.stderr)
    for path in files:
        for number, line in enumerate((source_tree.ROOT / path).read_text().splitlines(), 1):
            if LEFTOVERS.search(line):
                failures.append(f"{path}:{number}: leftover: {line.strip()}")
    print("\n".join(failures) or f"{len(files)} files are formatted")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
