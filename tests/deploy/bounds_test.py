"""Numbers that the chart takes are those that the binaries take: both bounds, and what lies beyond them."""

import functools
import json
import re
import subprocess
import unittest

import chart

# Value of the chart -> (role whose binary reads it, its flag with a place for the number). The values of both kinds of
# workers are one part of the schema, and stand here under decode.
FLAGS = {
    "engine.maxModelLen": ("worker", "--max-model-len={}"),
    "engine.blockSize": ("worker", "--block-size={}"),
    "decode.tensorParallelSize": ("worker", "--tensor-parallel-size={}"),
    "decode.maxNumSeqs": ("worker", "--max-num-seqs={}"),
    "decode.maxPrefillTokens": ("worker", "--max-prefill-tokens={}"),
    "decode.maxNumBatchedTokens": ("worker", "--max-num-batched-tokens={}"),
    "decode.maxNumQueuedReqs": ("worker", "--max-num-queued-reqs={}"),
    "decode.kvCacheTokens": ("worker", "--kv-cache-tokens={}"),
    "decode.gpuMemoryUtilization": ("worker", "--gpu-memory-utilization={}"),
    "decode.threads": ("worker", "--threads={}"),
    "decode.drainSeconds": ("worker", "--drain-timeout={}s"),
    "router.drainSeconds": ("router", "--drain-timeout={}s"),
    "router.maxNumQueuedReqs": ("router", "--max-num-queued-reqs={}"),
    "router.maxInputLength": ("router", "--max-input-length={}"),
    "router.maxOutputLength": ("router", "--max-output-length={}"),
    "router.localPrefillBelow": ("router", "--local-prefill-below={}"),
    "router.maxConnectionAgeSeconds": ("router", "--max-connection-age={}s"),
    "router.maxConnectionAgeGraceSeconds": ("router", "--max-connection-age-grace={}s"),
    "router.eosLog.maxSizeMiB": ("router", "--eos-log-max-size={}MiB"),
    "router.eosLog.files": ("router", "--eos-log-files={}"),
    "router.eosLog.sample": ("router", "--eos-log-sample={}"),
    "router.tenantMaxRunning": ("router", "--tenant-max-running={}"),
    "router.tenantMaxQueued": ("router", "--tenant-max-queued={}"),
    "router.tenants.a.weight": ("router", "--tenant=a:weight={}"),
    "router.tenants.a.maxRunning": ("router", "--tenant=a:max-running={}"),
    "router.tenants.a.maxQueued": ("router", "--tenant=a:max-queued={}"),
    "ports.grpc": ("router", "--port={}"),
    "ports.admin": ("router", "--admin-port={}"),
    "ports.http": ("router", "--http-port={}"),
}
# The same of sizes, with the least and the most bytes, which a template knows.
SIZES = {
    "router.maxInflightBytes": ("router", "--max-inflight-bytes={}", 1 << 20, 1 << 40),
    "decode.kvCacheMemory": ("worker", "--kv-cache-memory={}", 1, 1 << 50),
    "decode.swapSpace": ("decode", "--swap-space={}", 0, 1 << 50),
}
# Numbers that Kubernetes reads, or an autoscaler.
OTHERS = {"replicas", "port", "httpPort", "minReplicas", "maxReplicas", "cpuPercent", "requestsPerReplica", "kvUse",
          "predictedTokensPerReplica", "queueWaitSeconds", "tokenMs", "pollingSeconds", "scaleDownSeconds",
          "loadTimeoutSeconds", "timeoutSeconds", "minReadySeconds", "preStopSeconds", "terminationGracePeriodSeconds", "maxSurge", "maxUnavailable",
          "thresholds", "answered", "ttft", "itl"}


@functools.lru_cache(maxsize=None)
def schema():
    return json.loads((chart.CHART / "values.schema.json").read_text())


def resolved(one):
    return schema()["definitions"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one


def numbers():
    """Of all values that are numbers: path -> the schema's words of their range. A tenant stands under the name a."""
    found = {}

    def walk(one, path):
        one = resolved(one)
        ranges = [part for part in (one, *map(resolved, one.get("anyOf", ()))) if part.get("type") in ("integer", "number")]
        if ranges:
            found[".".join(path)] = ranges[0]
        for name, inner in one.get("properties", {}).items():
            walk(inner, [*path, name])
        if isinstance(one.get("additionalProperties"), dict):
            walk(one["additionalProperties"], [*path, "a"])

    walk(schema(), [])
    return found


def taken(role, argument):
    """Whether the binaries of a role take an argument; (exit codes, what they say)."""
    runs = []
    for one in ("prefill", "decode") if role == "worker" else (role,):
        # A share of a GPU's memory is for workers that have one.
        beside = "--decode-workers=a:1" if one == "router" else "--device=cuda"
        runs.append(subprocess.run([str(chart.BIN / "baton"), "config", "print", one, "/models", beside, argument],
                                   capture_output=True, text=True, timeout=60, check=False))
    return {run.returncode for run in runs}, "".join(run.stderr for run in runs)


class BoundsTest(unittest.TestCase):
    def assert_taken(self, role, argument):
        codes, words = taken(role, argument)
        self.assertEqual(codes, {0}, f"{argument}: {words}")

    def assert_refused(self, role, argument):
        codes, _ = taken(role, argument)
        self.assertNotIn(0, codes, f"{argument} is taken")

    def test_every_number_that_becomes_a_flag_is_looked_at(self):
        given = {path for path in numbers() if not set(path.split(".")) & OTHERS and not path.startswith("prefill.")}
        self.assertEqual(given, set(FLAGS))

    def test_numbers_have_the_bounds_of_the_binaries(self):
        for path, (role, flag) in FLAGS.items():
            bounds = numbers()[path]
            step = 1 if bounds["type"] == "integer" else 1e-6
            with self.subTest(path):
                # 0 leaves the setting to the binary, and is no flag.
                for number in (bounds.get("minimum") or step, bounds["maximum"]):
                    self.assert_taken(role, flag.format(number))
                self.assert_refused(role, flag.format(bounds["maximum"] + step))
                # Ports below 1024 are not for pods without privileges.
                if path not in ("ports.grpc", "ports.admin", "ports.http"):
                    self.assert_refused(role, flag.format((bounds.get("minimum", 0) - step) or -1))

    def test_sizes_have_the_bounds_of_the_binaries(self):
        text = json.dumps(schema())
        self.assertEqual({path.rpartition(".")[2] for path in SIZES},
                         set(re.findall(r'"(\w+)": {"\$ref": "#/definitions/size"}', text)))
        for path, (role, flag, least, most) in SIZES.items():
            for size, fits in ((least, True), (most, True), (least - 1, False), (most + 1, False), (10**30, False)):
                if size < 0:
                    continue
                with self.subTest(path, size=size):
                    (self.assert_taken if fits else self.assert_refused)(role, flag.format(size))
                    made = chart.template(settings=[*chart.LEAST, "router.resources=null", "decode.resources=null"],
                                          texts=[f"{path}={size}"])
                    self.assertEqual(made.returncode == 0, fits, made.stderr)
                    if not fits:
                        self.assertIn(f"{path} is {size}, but the binary takes ", made.stderr)


if __name__ == "__main__":
    unittest.main()
