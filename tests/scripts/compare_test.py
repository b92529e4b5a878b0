"""scripts/compare with servers and a load generator that only pretend."""

import contextlib
import io
import json
import os
import pathlib
import stat
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import compare_runs  # noqa: E402

# Serves until it is told to end, or writes a result; notes every call and its own process id.
FAKE_BATON = """#!/usr/bin/env python3
import json, os, pathlib, signal, sys, time
with open({log!r}, "a") as log:
    log.write(json.dumps([os.getpid(), *sys.argv[1:]]) + "\\n")
if sys.argv[1] == "serve":
    print('{{"mode":"x","grpc":"127.0.0.1:' + str(os.getpid()) + '","workers":[]}}', flush=True)
    time.sleep(60)
else:
    out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
    seed = int(sys.argv[sys.argv.index("--seed") + 1])
    ttft = {{"mean": 5, "p50": 5, "p99": 5}}
    figures = {{"request_throughput": 0.5, "output_throughput": float(seed), "ttft_ms": ttft,
                "tpot_ms": None, "itl_ms": None}}
    # At the top stands the whole run, ramp and drain included, which is not what is compared.
    result = {{"output_throughput": 1.0, "runs": [{{"figures": figures}}]}}
    out.write_text(json.dumps({{**result, **{extra!r}}}))
"""


class CompareTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "model").mkdir()
        (self.folder / "model/config.json").write_text(json.dumps({
            "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 8,
            "intermediate_size": 16, "num_attention_heads": 2, "vocab_size": 99}))

    def fake(self, extra=None):
        self.log = self.folder / "log"
        program = self.folder / "baton"
        program.write_text(FAKE_BATON.format(log=str(self.log), extra=extra or {}))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def calls(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def compare(self, *arguments):
        out = self.folder / "table.md"
        with contextlib.redirect_stderr(io.StringIO()):
            compare_runs.main(["--baton-bin", str(self.folder), "--model",
                               str(self.folder / "model"), "--out", str(out), *arguments])
        return out.read_text()

    def test_rounds_are_interleaved_and_every_server_is_gone(self):
        self.fake()
        text = self.compare("--rounds", "3", "--concurrency", "1,4", "--rate", "2", "--threads", "4")
        calls = self.calls()
        modes = [call[call.index("--mode") + 1] for call in calls if call[1] == "serve"]
        self.assertEqual(modes, ["split", "unified", "unified", "split", "split", "unified"])
        threads = {call[call.index("--mode") + 1]: call[call.index("--threads") + 1]
                   for call in calls if call[1] == "serve"}
        self.assertEqual(threads, {"split": "2", "unified": "4"})
        benches = [call for call in calls if call[1] == "bench"]
        self.assertEqual(len(benches), 6 * (1 + 3))
        for call in calls:
            if call[1] == "serve":
                with self.assertRaises(ProcessLookupError):
                    os.kill(call[0], 0)
        # Medians of the seeds 1000, 2000 and 3000, which the fake answers as its throughput.
        self.assertIn("| 1 under way | Baton, split: 1 prefill and 1 decode worker, 2 threads each "
                      "| 0.50 | 2000.0 | 5.0 | 5.0 | 5.0 | - |", text)
        self.assertIn("| 2 requests/s | Baton, unified: 1 worker, 4 threads | 0.50 | 2002.0 |", text)
        self.assertIn("100 %", text)
        self.assertIn("2 layers, hidden 8", text)
        self.assertIn("bench_kernels", text)

    def test_a_run_that_does_not_count_ends_it_with_the_reason(self):
        for extra, reason in (({"void": "output 3 is not 4"}, "output 3 is not 4"),
                              ({"failed": 2, "errors": ["", "refused"]}, "refused"),
                              ({"partial": True, "partial_reason": "interrupted"}, "interrupted"),
                              ({"client_limited": True}, "load generator was late")):
            self.fake(extra)
            with self.assertRaisesRegex(compare_runs.CompareError, reason):
                self.compare("--rounds", "1")
            with self.assertRaises(ProcessLookupError):
                os.kill(self.calls()[0][0], 0)

    def test_a_server_that_ends_at_once_is_named_with_its_last_words(self):
        program = self.folder / "baton"
        program.write_text("#!/bin/sh\necho no such model >&2\nexit 3\n")
        program.chmod(0o755)
        with self.assertRaisesRegex(compare_runs.CompareError, "ended with 3:\nno such model"):
            self.compare("--rounds", "1")

    def test_arguments_that_make_no_sense_are_refused(self):
        self.fake()
        for arguments in (["--llama-server", "/bin/true"], ["--gguf", "/dev/null"],
                          ["--rounds", "0"], ["--transformers", "/nowhere/python"]):
            with self.assertRaises(SystemExit) as refusal:
                self.compare(*arguments)
            self.assertEqual(refusal.exception.code, 2)

    def test_limits_are_the_first_line_of_the_kernels_bench(self):
        program = self.folder / "bench_kernels"
        program.write_text("#!/bin/sh\necho 'isa, 2 threads: peak 1.0 GFLOP/s, read 2.0 GB/s; medians'\n"
                           "exec sleep 60\n")
        program.chmod(0o755)
        self.fake()
        options = compare_runs.parse(["--baton-bin", str(self.folder)])
        self.assertEqual(compare_runs.machine_limits(options),
                         "isa, 2 threads: peak 1.0 GFLOP/s, read 2.0 GB/s")
        program.write_text("#!/bin/sh\necho out of memory\n")
        with self.assertRaisesRegex(compare_runs.CompareError, "out of memory"):
            compare_runs.machine_limits(options)

    def test_peers_join_where_their_paths_are_given(self):
        self.fake()
        options = compare_runs.parse([
            "--baton-bin", str(self.folder), "--llama-server", sys.executable, "--gguf",
            sys.executable, "--transformers", sys.executable])
        options.vocab_size = 99
        systems = compare_runs.systems_of(options)
        self.assertEqual(len(systems), 4)
        self.assertIn("--vocab-size", systems[2].load("http://h:1"))
        self.assertEqual(compare_runs.loads_of(options)[1], ("8 under way", ["--concurrency", "8"]))


if __name__ == "__main__":
    unittest.main()
