"""Every #include of the tree against the layering table of docs/architecture.md, and the size of its folders.

A part is a folder (the longest prefix wins). `MAY` lists the parts of ours that it may include, and
`EXTERNAL` the libraries; what is not listed is refused, so a new dependency is a decision.
"""

import collections
import pathlib
import re
import sys

import source_tree

FILES_MAX = 50  # directly in a folder; beyond it, a reader wants rooms

CORE_LIBRARIES = ("absl/", "spdlog/")
MAY = {
    "common/base": (),
    "common/rust": ("common/base",),
    "common/formats": ("common/base", "common/rust"),
    "common/text": ("common/base", "common/formats", "common/rust"),
    "kernels": ("common/base",),
    "common/nccl": ("common/base",),
    "kernels/cuda": ("common/base", "common/nccl", "kernels/*"),
    "common/sample": ("common/base", "kernels/*"),
    "common/eos": ("common/base", "common/sample"),
    "common/kv": ("common/base", "kernels/*"),
    "common/sched": ("common/base", "common/sample", "common/kv", "kernels/*"),
    "common/roles": ("common/base",),
    "common/speculate": ("common/base",),
    "common/guide": ("common/base", "common/rust", "common/text", "common/sample",
                     "common/sched/sequence_guide.h"),
    "common/model": ("common/base", "common/formats", "common/kv", "common/sched", "common/sample",
                     "kernels/*"),
    "common/engine": ("common/base", "common/sample", "common/eos", "common/kv", "common/sched",
                      "common/speculate", "common/model", "kernels/*"),
    "common/metrics": ("common/base",),
    "common/config": ("common/base",),
    "common/admin": ("common/base", "common/metrics", "common/http", "common/rpc"),
    "common/trace": ("common/base", "common/config", "common/metrics"),
    "common/transport": ("common/base", "common/kv", "common/nccl", "kernels/*", "kernels/cuda",
                         "common/rpc", "common/trace/trace_context.h", "proto"),
    "common/rpc": ("common/base", "proto", "common/sample", "common/sched/sequence.h",
                   "common/sched/beam_group.h", "common/eos", "common/trace/trace_context.h"),
    "common/http": ("common/base", "common/rpc"),
    "common/worker": ("common/base", "common/formats", "common/text", "common/sample",
                      "common/eos", "common/kv", "common/sched", "common/model", "common/engine",
                      "common/guide", "common/roles", "common/metrics", "common/admin", "common/config", "common/transport",
                      "common/rpc", "common/trace", "kernels/*", "proto"),
    "router": ("common/base", "common/text", "common/formats", "common/rpc", "proto", "common/eos",
               "common/metrics", "common/admin", "common/config", "common/http", "common/sample",
               "common/trace", "common/guide", "common/roles"),
    "tools": ("common/base", "common/text", "common/formats", "common/rpc", "proto", "common/eos",
              "common/metrics", "common/admin", "common/config", "common/sample", "common/model",
              "kernels/*", "tools/client"),
}
# What is simulated is what is served.
MAY["tools/sim"] = MAY["tools"] + ("common/kv", "common/sched", "common/roles", "common/engine/foresight.h",
                                   "common/worker/timeouts.h", "router/placement", "router/workers",
                                   "router/router_options.h", "tools/bench/plan",
                                   "tools/bench/figures", "tools/eos")
# A plan is found by simulation, and measures the engine that is served.
MAY["tools/planner"] = MAY["tools/sim"] + ("tools/sim", "tools/serve", "common/engine")
MAY["prefill_worker"] = MAY["common/worker"] + ("common/worker",)
# A decode worker that is elastic has the other role, too.
MAY["decode_worker"] = MAY["prefill_worker"] + ("prefill_worker/prefill_role.h",)

# Folders inside a part: each may include those that stand before it in its row ("*": the headers directly
# in the part), and what the part may.
ROOMS = {
    "common/transport": ("*", "pair"),
    "kernels/cuda": ("cta", "device", "attention", "graph", "rows", "gemm", "memory", "sample",
                     "group"),
    "router": ("*", "edge", "workers", "page", "placement", "request", "openai"),
    "tools/bench": ("plan", "load", "client", "figures", "search", "report"),
}
for part, rooms in ROOMS.items():
    above = next(MAY[row] for row in (part, part.split("/")[0]) if row in MAY)
    for index, room in enumerate(rooms):
        MAY[f"{part}/{room}"] = above + tuple(f"{part}/{earlier}" for earlier in rooms[:index])

EXTERNAL = {
    "common/base": CORE_LIBRARIES + ("nlohmann/", "openssl/"),
    "common/formats": CORE_LIBRARIES + ("nlohmann/", "re2/"),
    "common/sample": CORE_LIBRARIES + ("nlohmann/",),
    "common/text": CORE_LIBRARIES,
    "kernels": CORE_LIBRARIES,
    "kernels/cpu": CORE_LIBRARIES + ("hwy/", "omp.h"),
    "kernels/cuda": CORE_LIBRARIES + ("cuda", "cublas", "flashinfer/", "cooperative_groups"),
    "kernels/bench": CORE_LIBRARIES + ("benchmark/", "omp.h"),
    "common/metrics": CORE_LIBRARIES + ("prometheus/", "nlohmann/"),
    "common/config": CORE_LIBRARIES + ("CLI/", "toml++/", "nlohmann/"),
    "common/admin": CORE_LIBRARIES,
    "common/trace": CORE_LIBRARIES + ("httplib.h", "nlohmann/"),
    "common/http": CORE_LIBRARIES + ("boost/asio/", "boost/beast/", "openssl/"),
    "common/model": CORE_LIBRARIES + ("nlohmann/", "omp.h"),
    "common/eos": CORE_LIBRARIES + ("nlohmann/", "zstd.h"),
}
RPC_LIBRARIES = CORE_LIBRARIES + ("grpc", "google/", "nlohmann/")
for part in ("common/transport", "common/rpc", "common/worker", "router", "prefill_worker",
             "decode_worker"):
    EXTERNAL[part] = RPC_LIBRARIES
EXTERNAL["common/rpc"] = RPC_LIBRARIES + ("boost/asio/", "openssl/")
EXTERNAL["tools"] = RPC_LIBRARIES + ("CLI/", "curl/", "httplib.h")

# Headers of the compiler and of POSIX.
SYSTEM = re.compile(r"^([a-z_0-9]+|[a-z]+intrin\.h|(sys|arpa|netinet|linux|net)/[a-z_0-9]+\.h|"
                    r"[a-z_0-9]+\.h)$")
NOT_SYSTEM = re.compile(r"httplib\.h|omp\.h|zstd\.h|(cuda|cublas|nccl|cooperative_groups|driver_types|"
                        r"vector_types|library_types)[a-zA-Z_0-9]*\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def part_of(path):
    """The longest known folder that holds `path`."""
    candidates = [part for part in set(MAY) | set(EXTERNAL) if path.startswith(part + "/")]
    return max(candidates, key=len, default=None)


def rule(part, table, default):
    """The row of `part` or of the nearest folder above it."""
    while part not in table and "/" in part:
        part = part.rsplit("/", 1)[0]
    return table.get(part, default)


def allowed(path, include):
    part = part_of(path)
    if include.startswith(("baton/", "google/rpc/", "grpc/health/")) and include.endswith(".pb.h"):
        return "proto" in rule(part, MAY, ())
    if (source_tree.ROOT / include).exists():
        own = part if part in MAY else part.split("/")[0]
        if include.startswith((own + "/", part + "/")):
            return True
        for other in rule(part, MAY, ()):
            if other.endswith("/*"):
                # The device interface only: headers directly in the folder.
                folder = other[:-2]
                if include.startswith(folder + "/") and "/" not in include[len(folder) + 1:]:
                    return True
            elif include == other or include.startswith(other + "/"):
                return True
        return False
    if include.startswith(rule(part, EXTERNAL, CORE_LIBRARIES)):
        return True
    return bool(SYSTEM.match(include)) and not NOT_SYSTEM.fullmatch(include)


def violations():
    for source in source_tree.sources(folders=[f for f in source_tree.FOLDERS if f != "tests"]):
        path = source.as_posix()
        if part_of(path) is None:
            yield f"{path}: this folder is in no row of the layering table"
            continue
        for number, line in enumerate((source_tree.ROOT / source).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match and not allowed(path, match.group(2)):
                yield f"{path}:{number}: {part_of(path)} must not include {match.group(2)}"


def crowded(paths):
    for folder, files in sorted(collections.Counter(path.parent for path in paths).items()):
        if files > FILES_MAX:
            yield f"{folder}: {files} files; expected at most {FILES_MAX}, so divide it into folders"


def self_test():
    assert not allowed("common/base/x.h", "grpcpp/grpcpp.h")
    assert not allowed("common/sched/x.h", "common/rpc/y.h")
    assert not allowed("router/x.cc", "kernels/backend.h")
    assert not allowed("common/kv/x.h", "kernels/cpu/y.h")
    assert allowed("common/kv/x.h", "kernels/paged_kv.h")
    assert not allowed("common/kv/x.h", "cuda_runtime.h")
    assert not allowed("kernels/backend_factory.h", "cuda_runtime_api.h")
    assert not allowed("kernels/cpu/x.cc", "nccl.h")
    assert not allowed("kernels/x.cc", "common/nccl/api.h")
    assert allowed("kernels/cuda/x.cc", "common/nccl/api.h")
    assert allowed("kernels/cuda/x.cc", "cuda_runtime_api.h")
    assert allowed("tools/sim/x.h", "router/placement/choose_place.h")
    assert not allowed("tools/sim/x.h", "router/request/request_flow.h")
    assert not allowed("tools/bench/plan/x.h", "tools/bench/load/load_generator.h")
    assert allowed("tools/bench/load/x.h", "tools/bench/plan/request_plan.h")
    assert not allowed("router/workers/x.h", "router/request/request_flow.h")
    assert allowed("common/base/x.h", "vector") and allowed("common/base/x.h", "sys/mman.h")
    some = [pathlib.Path(f"a/{number}.cc") for number in range(FILES_MAX + 1)]
    assert list(crowded(some)) and not list(crowded(some[1:] + [pathlib.Path("a/b/c.cc")]))


if __name__ == "__main__":
    self_test()
    own = source_tree.sources((*source_tree.FOLDERS, "analysis", "models", "proto", "scripts"),
                              (*source_tree.SUFFIXES, ".proto", ".py", ".rs"))
    found = [*violations(), *crowded(own)]
    print("\n".join(found) or "layering holds")
    sys.exit(1 if found else 0)
