"""Each header compiles by itself. Usage: headers_test.py COMPILER -I... (the flags of the build)"""

import concurrent.futures
import os
import subprocess
import sys

import source_tree


def check(command, header):
    result = subprocess.run(
        [*command, "-x", "c++", "-fsyntax-only", "-include", str(header), "/dev/null"],
        cwd=source_tree.ROOT, capture_output=True, text=True, check=False)
    return None if result.returncode == 0 else f"{header}:\n{result.stderr}"


def main():
    command = sys.argv[1:]
    # Highway's per-target files are included several times by foreach_target, never alone.
    headers = [path for path in source_tree.sources(suffixes=(".h",))
               if not path.name.endswith("-inl.h")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [text for text in pool.map(lambda path: check(command, path), headers) if text]
    print("\n".join(failures) or f"{len(headers)} headers are self-contained")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
