"""The worker binaries as an operator meets them: ready line, probes, exit codes, drain."""

import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import cluster  # noqa: E402

MODEL = cluster.ROOT / "tests/golden/models/llama2_hd64"
SMALL = ["--kv-cache-tokens", "4096"]
ROLES = ("prefill", "decode")


def run_to_exit(role, arguments, environment=None):
    """Exit code and stderr of a worker that is expected not to start."""
    env = dict(os.environ, **(environment or {}))
    done = subprocess.run([str(cluster.BIN / f"baton-{role}"), *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True, env=env,
                          timeout=cluster.PATIENCE_S)
    return done.returncode, done.stderr.decode()


class WorkerProcessTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="baton_worker_")
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, role, *arguments, environment=None):
        process = cluster.Process(
            role, [cluster.BIN / f"baton-{role}", MODEL, "--port", 0, "--admin-port", 0, *SMALL,
                   *arguments], self.folder, environment)
        self.addCleanup(process.kill)
        return process.wait_ready()

    def test_ready_line_probes_and_drain(self):
        for role in ROLES:
            with self.subTest(role):
                worker = self.start(role)
                self.assertEqual(worker.ready["role"], role)
                self.assertTrue(worker.ready["ready"])
                self.assertEqual(list(worker.ready), ["ready", "role", "pid", "grpc", "admin"])
                self.assertEqual(worker.ready["pid"], worker.pid)
                self.assertEqual(worker.get("/readyz").strip(), "ok")
                self.assertEqual(worker.get("/healthz").strip(), "ok")
                self.assertEqual(worker.terminate(), 0, worker.tail())

    def test_metrics_page_is_valid_and_blocks_add_up(self):
        worker = self.start("decode")
        page = worker.get("/metrics")
        states = {}
        for line in page.splitlines():
            if line.startswith("baton_kv_blocks{"):
                states[line.partition('state="')[2].partition('"')[0]] = float(line.split()[-1])
        self.assertEqual(set(states), {"free", "cached", "quarantined", "used"})
        self.assertEqual(sum(states.values()), 4096 / 16)
        self.assertIn('baton_server_state{', page)
        promtool = shutil.which("promtool")
        if promtool:
            check = subprocess.run([promtool, "check", "metrics"], input=page.encode(),
                                   capture_output=True)
            self.assertEqual(check.returncode, 0, check.stderr + check.stdout)

    def test_the_phases_of_the_load_are_published_and_add_up(self):
        worker = self.start("prefill")
        phases = {}
        for line in worker.get("/metrics").splitlines():
            if line.startswith("baton_model_load_duration_seconds{"):
                phases[line.partition('phase="')[2].partition('"')[0]] = float(line.split()[-1])
        total = phases.pop("total")
        self.assertEqual(set(phases), {"checkpoint", "weights", "kv_cache", "kernels"})
        self.assertGreater(min(phases.values()), 0, phases)
        self.assertLess(sum(phases.values()), total)
        # A load of moments says so once.
        self.assertEqual(worker.tail().count("weights loaded: "), 1, worker.tail())
        self.assertNotIn("loading weights: ", worker.tail())

    def test_workers_map_the_weights_of_one_load_cache(self):
        def mapped(worker):
            maps = pathlib.Path(f"/proc/{worker.pid}/maps").read_text().splitlines()
            return {tuple(line.split()[4:6]) + (line.split()[1],)
                    for line in maps if ".packed" in line}

        cache = pathlib.Path(self.folder) / "cache"
        first = self.start("prefill", "--load-cache", cache)
        self.assertEqual(first.tail().count("load cache written: "), 1, first.tail())
        second = self.start("decode", "--load-cache", cache)
        self.assertNotIn("load cache written: ", second.tail())
        for worker in (first, second):
            self.assertEqual(worker.tail().count("weights mapped from load cache "), 1,
                             worker.tail())
        self.assertEqual(len(mapped(first)), 1, mapped(first))
        self.assertEqual(mapped(first), mapped(second))
        self.assertEqual({entry[2] for entry in mapped(first)}, {"r--s"})
        self.assertEqual(second.terminate(), 0, second.tail())
        alone = self.start("decode", "--load-cache", "off")
        self.assertEqual(mapped(alone), set())
        self.assertFalse(pathlib.Path("off").exists())

    def test_a_port_in_use_exits_5_and_names_it(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            for role in ROLES:
                for flag in ("--port", "--admin-port"):
                    other = "--admin-port" if flag == "--port" else "--port"
                    code, text = run_to_exit(role, [MODEL, flag, port, other, 0, *SMALL])
                    self.assertEqual(code, 5, text)
                    self.assertIn(str(port), text)

    def test_what_needs_no_weights_is_told_before_they_are_loaded(self):
        model = pathlib.Path(self.folder) / "model"
        shutil.copytree(MODEL, model)
        (model / "tokenizer.json").write_text("{")
        absent = ["--tls-cert", "/absent.pem", "--tls-key", "/absent.key", "--tls-ca", "/absent.ca"]
        for arguments, exit_code, word in (
                ([model], 3, "tokenizer"),
                ([MODEL, *absent], 2, "/absent"),
                ([MODEL, "--kv-transport", "nccl"], 2, "--kv-transport"),
                ([MODEL, "--kv-transport", "nccl", "--nccl-library", "/absent.so"], 2, "/absent.so"),
                ([MODEL, "--max-model-len", 10 ** 6], 2, "--max-model-len")):
            code, text = run_to_exit("decode", [*arguments, "--port", 0, "--admin-port", 0, *SMALL])
            self.assertEqual(code, exit_code, text)
            self.assertIn(word, text)
            self.assertNotIn("weights loaded", text)

    def reserve_port(self):
        """A free port that a server which asks for it by number gets, and nobody else."""
        reserved = socket.socket()
        self.addCleanup(reserved.close)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        return reserved.getsockname()[1]

    def test_a_worker_that_loads_has_its_port_and_says_what_it_does(self):
        model = pathlib.Path(self.folder) / "model"
        shutil.copytree(MODEL, model)
        # With a lease on a file, who opens it waits until the lease is given back: a slow disk.
        slow = os.open(model / "tokenizer.json", os.O_RDWR)
        self.addCleanup(os.close, slow)
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel asks for it
        fcntl.fcntl(slow, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        port, admin_port = self.reserve_port(), self.reserve_port()
        arguments = [model, "--port", port, "--admin-port"]
        worker = cluster.Process(
            "decode", [cluster.BIN / "baton-decode", *arguments, admin_port, *SMALL], self.folder)
        self.addCleanup(worker.kill)

        def page():
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/readyz", timeout=10)
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()
            except OSError:
                return None
            return 200, ""
        expected = (503, "the worker is starting: reading the tokenizer\n")
        cluster.wait_until(lambda: page() == expected, f"the page {expected}")
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10)
        code, text = run_to_exit("decode", [*arguments, 0, *SMALL])
        self.assertEqual(code, 5, text)
        cluster.wait_until(lambda: "reading the tokenizer, 2 s so far" in worker.log.read_text(),
                           "a line about the phase that lasts")
        fcntl.fcntl(slow, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        self.assertEqual(worker.wait_ready().grpc, f"127.0.0.1:{port}")
        self.assertEqual(worker.terminate(), 0, worker.tail())

    def test_model_errors_exit_3(self):
        broken = pathlib.Path(self.folder) / "broken"
        shutil.copytree(MODEL, broken)
        (broken / "model.safetensors").write_bytes(b"\xff" * 64)
        for directory in (pathlib.Path(self.folder) / "absent", broken):
            for role in ROLES:
                code, text = run_to_exit(role, [directory, "--port", 0, "--admin-port", 0])
                self.assertEqual(code, 3, text)
                self.assertIn("fatal", text)

    def test_too_little_memory_exits_4(self):
        code, text = run_to_exit(
            "decode", [MODEL, "--port", 0, "--admin-port", 0, "--kv-cache-memory", "500000GiB"])
        self.assertEqual(code, 4, text)
        self.assertIn("--kv-cache", text)

    def test_usage_errors_exit_2(self):
        for arguments, word in (
                ([MODEL, "--prot", 0], "--port"),
                ([MODEL, "--host", "0.0.0.0", "--port", 0], "--insecure"),
                ([MODEL, "--port", 0, "--admin-port", 0, "--max-model-len", 10 ** 6, *SMALL],
                 "--max-model-len"),
                ([MODEL, "--port", 0, "--admin-port", 0, "--policy", "best", *SMALL], "best")):
            code, text = run_to_exit("decode", arguments)
            self.assertEqual(code, 2, text)
            self.assertIn(word, text)

    def test_a_predictor_of_the_model_with_a_probe_that_does_not_fit_exits_2(self):
        body = json.loads((cluster.DEMO_MODEL / "eos_predictor.json").read_text())["body"]
        body["probe"]["layer"] = 77
        text = json.dumps(body)
        path = pathlib.Path(self.folder) / "predictor.json"
        path.write_text(f'{{"format":"baton-eos-predictor","version":1,'
                        f'"sha256":"{hashlib.sha256(text.encode()).hexdigest()}","body":{text}}}\n')
        code, text = run_to_exit("decode", [cluster.DEMO_MODEL, "--port", 0, "--admin-port", 0,
                                            "--predictor", path, *SMALL])
        self.assertEqual(code, 2, text)
        for word in (str(path), "is of this model", "layer 77"):
            self.assertIn(word, text)

    def copy_of_model(self, name, **config):
        folder = pathlib.Path(self.folder) / name
        shutil.copytree(MODEL, folder)
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**settings, **config}))
        return folder

    def test_drafts_that_cannot_foretell_are_refused_before_weights_are_loaded(self):
        other_text = self.copy_of_model("other_text")
        tokenizer = json.loads((other_text / "tokenizer.json").read_text())
        (other_text / "tokenizer.json").write_text(json.dumps(tokenizer, indent=3))
        broken = self.copy_of_model("broken")
        (broken / "config.json").write_text("{")
        for draft, exit_code, words in (
                (pathlib.Path(self.folder) / "absent", 3, ["absent"]),
                (broken, 3, ["config.json"]),
                (cluster.DEMO_MODEL, 3, ["has 2048 ids", "has 320", "same family"]),
                (other_text, 3, ["fingerprint", "same tokenizer.json"]),
                (self.copy_of_model("short", max_position_embeddings=256), 2,
                 ["up to 256", "512 tokens", "--max-model-len"])):
            code, text = run_to_exit("decode", [MODEL, "--draft-model", draft, "--port", 0, "--admin-port", 0, *SMALL])
            self.assertEqual(code, exit_code, text)
            for word in ["--draft-model", str(draft), *words]:
                self.assertIn(word, text)
            self.assertNotIn("weights loaded", text)

    def test_a_draft_whose_heads_do_not_fit_the_kv_cache_is_refused(self):
        narrow = self.copy_of_model("narrow", head_dim=8)
        code, text = run_to_exit("decode", [MODEL, "--draft-model", narrow, "--kv-dtype", "int8", "--port", 0,
                                            "--admin-port", 0, *SMALL])
        self.assertEqual(code, 3, text)
        for word in ("--draft-model", str(narrow), "heads of 8", "--kv-dtype int8", "take another draft"):
            self.assertIn(word, text)

    def test_a_draft_needs_its_memory_and_its_device(self):
        draft = ["--draft-model", MODEL, "--port", 0, "--admin-port", 0, *SMALL]
        code, text = run_to_exit("decode", [MODEL, *draft, "--draft-kv-cache-tokens", 10 ** 11])
        self.assertEqual(code, 4, text)
        self.assertIn("--draft-kv-cache-tokens, which is 100000000000", text)
        for role, flags, word in (("decode", ["--device", "cuda"], "--draft-model with --device cuda"),
                                  ("decode", ["--speculative", "ngram"], "--draft-model with --speculative ngram"),
                                  ("prefill", [], "decode workers")):
            code, text = run_to_exit(role, [MODEL, *draft, *flags])
            self.assertEqual(code, 2, text)
            self.assertIn(word, text)

    def test_a_worker_with_a_draft_says_what_it_takes(self):
        worker = self.start("decode", "--draft-model", MODEL, "--draft-kv-cache-tokens", 640)
        self.assertIn("KV cache: 40 blocks of 16 tokens", worker.tail())
        self.assertIn("speculation draft", worker.tail())
        self.assertIn("baton_spec_decode_draft_steps_total{", worker.get("/metrics"))
        self.assertEqual(worker.terminate(), 0, worker.tail())

    def test_a_prefill_worker_foretells_nothing(self):
        for role, speculation in (("prefill", "none"), ("decode", "ngram")):
            worker = self.start(role, "--speculative", "ngram")
            self.assertIn(f"speculation {speculation}\n", worker.tail())
            self.assertEqual(worker.terminate(), 0, worker.tail())

    def test_swap_space_is_taken_at_start_by_workers_that_generate(self):
        ports = ["--port", 0, "--admin-port", 0, *SMALL]
        code, text = run_to_exit("decode", [MODEL, *ports, "--swap-space", 1 << 49])
        self.assertEqual(code, 4, text)
        for word in (", swap space ", "lower --swap-space, "):
            self.assertIn(word, text)
        code, text = run_to_exit("decode", [MODEL, *ports, "--swap-space", 100])
        self.assertEqual(code, 4, text)
        self.assertIn("--swap-space 100 holds no block: one block of 16 tokens takes ", text)
        code, text = run_to_exit("prefill", [MODEL, *ports, "--swap-space", "1MiB"])
        self.assertEqual(code, 2, text)
        self.assertIn("decode workers, which preempt answers", text)
        worker = self.start("decode", "--swap-space", "1MiB")
        self.assertRegex(worker.tail(), r"swap space: [1-9]\d* blocks, [01] MiB; a block goes out at \d+ MiB/s")
        self.assertIn('baton_swap_blocks_total{', worker.get("/metrics"))
        self.assertEqual(worker.terminate(), 0, worker.tail())

    def test_failpoints_need_their_flag(self):
        # Without the flag the variable is ignored, with it a bad one is refused.
        worker = self.start("decode", environment={"BATON_FAILPOINT": "nonsense"})
        self.assertEqual(worker.terminate(), 0)
        code, text = run_to_exit(
            "decode", [MODEL, "--port", 0, "--admin-port", 0, "--enable-failpoints", *SMALL],
            {"BATON_FAILPOINT": "nonsense"})
        self.assertEqual(code, 2, text)
        self.assertIn("nonsense", text)


if __name__ == "__main__":
    unittest.main()
