"""Each header compiles by itself. Usage: headers_test.py COMPILER -I... (the flags of the build)

Nearly all the time goes into headers that many others include, so some sets of them are precompiled. A header is
compiled behind a set only if it includes the whole set, itself or through headers of ours that are tested
too. So it finds nothing there that it did not ask for.
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


def check(command, precompiled, header):
    reached = included(str(header), set())
    first = next((["-include", precompiled[names]] for names in PRECOMPILED
                  if reached.issuperset(names)), [])
    result = compile_alone(command, "-x", "c++", "-fsyntax-only", *first, "-include", header, "/dev/null")
    return None if result.returncode == 0 else f"{header}:\n{result.stderr}"


def main():
    command = sys.argv[1:]
    # Highway's per-target files are included several times by foreach_target, never alone.
    headers = [path for path in source_tree.sources(suffixes=(".h",))
               if not path.name.endswith("-inl.h")]
    with (tempfile.TemporaryDirectory() as folder,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        made = pool.map(lambda names: precompile(command, pathlib.Path(folder), names), PRECOMPILED)
        precompiled = dict(zip(PRECOMPILED, made))
        failures = [text for text in pool.map(lambda path: check(command, precompiled, path), headers)
                    if text]
    print("\n".join(failures) or f"{len(headers)} headers are self-contained")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
