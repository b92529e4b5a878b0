"""Each header compiles by itself. Usage: headers_test.py COMPILER -I... (the flags of the build)

Nearly all the time goes into headers that many others include, so some sets of them are precompiled, and one run of
the compiler tests a chain of headers. A header stands behind a set, and behind another header, only if it includes
that, itself or through headers of ours that are tested too. So it finds nothing there that it did not ask for.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import source_tree

INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.MULTILINE)
# The first one that a header includes is taken, so the slowest stand first.
PRECOMPILED = (
    ("router/workers/worker_directory.h",),
    ("tools/generate/generate_client.h",),
    ("common/worker/worker_core.h",),
    ("tools/client/client_flags.h",),
    ("common/engine/engine.h",),
    ("common/model/weights.h",),
    ("common/rpc/channel.h",),
    ("common/eos/predict/end_predictor.h",),
    ("absl/status/statusor.h", "baton/v1/inference.pb.h"),
    ("baton/worker/v1/decode.grpc.pb.h",),
    ("common/formats/model_config.h",),
    ("common/config/options.h",),
    ("kernels/backend.h",),
    ("absl/status/statusor.h", "nlohmann/json.hpp"),
    ("absl/status/statusor.h", "absl/container/flat_hash_map.h"),
    ("absl/status/statusor.h",),
    ("gtest/gtest.h",),
    ("absl/container/flat_hash_map.h",),
    ("absl/status/status.h",),
    ("functional", "string"),
    ("chrono", "string"),
    ("functional",),
    ("string",),
)


def included(header, seen):
    """What a header includes, with what headers of ours include for it."""
    path = source_tree.ROOT / header
    for name in INCLUDE.findall(path.read_text()) if path.is_file() else ():
        if name not in seen:
            seen.add(name)
            included(name, seen)
    return seen


def compile_alone(command, *options):
    return subprocess.run([*command, "-Werror=subobject-linkage", *map(str, options)],
                          cwd=source_tree.ROOT, capture_output=True, text=True, check=False)


def precompile(command, folder, names):
    header = folder / f"{PRECOMPILED.index(names)}.h"
    header.write_text("".join(f"#include <{name}>\n" for name in names))
    result = compile_alone(command, "-x", "c++-header", header, "-o", f"{header}.gch")
    if result.returncode:
        sys.exit(f"{names} cannot be precompiled:\n{result.stderr}")
    return header


def chains(headers):
    """Lists of headers, each of which includes all that stand before it, with the set that stands before them all."""
    reached = {header: included(header, set()) for header in headers}
    behind = {header: next((names for names in PRECOMPILED if reached[header].issuperset(names)), None)
              for header in headers}
    # A chain is begun at its end, with the header that includes most.
    left = dict.fromkeys(sorted(headers, key=lambda header: -len(reached[header])))
    while left:
        header = next(iter(left))
        names, chain = behind[header], []
        while header:
            del left[header]
            chain.insert(0, header)
            header = next((other for other in left if other in reached[header] and behind[other] == names), None)
        yield names, chain


def check(command, precompiled, names, chain):
    before = [precompiled[names]] if names else []
    includes = [option for header in (*before, *chain) for option in ("-include", header)]
    result = compile_alone(command, "-x", "c++", "-fsyntax-only", *includes, "/dev/null")
    return None if result.returncode == 0 else f"{', '.join(chain)}:\n{result.stderr}"


def main():
    command = sys.argv[1:]
    # Highway's per-target files are included several times by foreach_target, never alone.
    headers = [str(path) for path in source_tree.sources(suffixes=(".h",))
               if not path.name.endswith("-inl.h")]
    with (tempfile.TemporaryDirectory() as folder,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        made = pool.map(lambda names: precompile(command, pathlib.Path(folder), names), PRECOMPILED)
        precompiled = dict(zip(PRECOMPILED, made))
        failures = [text for text in pool.map(lambda found: check(command, precompiled, *found), chains(headers))
                    if text]
    print("\n".join(failures) or f"{len(headers)} headers are self-contained")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
