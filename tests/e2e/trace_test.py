"""Traces of the shipped binaries, as a collector gets them: one request's way through three processes."""

import json
import os
import subprocess
import threading
import unittest
import urllib.error
import urllib.request

import client
from cluster import ROOT, Cluster, wait_until
from otlp_collector import Collector, as_proto3_json

NOT_HERE = 77
SLACK_NS = 2_000_000  # each process reads the calendar for itself
PROMPT = "Once upon a time there was a fox who lived by a river and had a friend, the mouse."
CALLER = "00f067aa0ba902b7"
STAGES = ["prepare", "queue", "attempt"]
PHASES = ["reserve", "prefill", "transfer", "decode"]


def traceparent(number, flags="01"):
    return f"00-4bf92f3577b34da6a3ce929d{number:08x}-{CALLER}-{flags}"


def trace_id(number):
    return traceparent(number).split("-")[1]


def complete(router, number=None, max_tokens=12, **fields):
    """Asks over HTTP; (status, answer)."""
    headers = {"Content-Type": "application/json", "tracestate": "rojo=1"}
    if number is not None:
        headers["traceparent"] = number if isinstance(number, str) else traceparent(number)
    body = {"prompt": PROMPT, "max_tokens": max_tokens, "ignore_eos": True, "seed": 3,
            "temperature": 0.3, **fields}
    request = urllib.request.Request(f"http://{router.ready['http']}/v1/completions",
                                     json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class Tree:
    """The spans of one trace, by parent."""

    def __init__(self, spans):
        self.spans = spans
        self.by_id = {span.id: span for span in spans}

    def roots(self):
        return [span for span in self.spans if span.parent not in self.by_id]

    def under(self, span, *names):
        found = [child for child in self.spans if child.parent == span.id]
        found.sort(key=lambda child: child.begin)
        return [child for child in found if not names or child.name in names]

    def one(self, span, name):
        found = self.under(span, name)
        assert len(found) == 1, (name, found, self.under(span))
        return found[0]


class TraceTest(unittest.TestCase):
    def assert_nests(self, tree):
        for span in tree.spans:
            self.assertLessEqual(span.begin, span.end, span)
            parent = tree.by_id.get(span.parent)
            if parent is not None:
                self.assertGreaterEqual(span.begin, parent.begin - SLACK_NS, (span, parent))
                self.assertLessEqual(span.end, parent.end + SLACK_NS, (span, parent))

    def assert_follow_each_other(self, spans):
        for before, after in zip(spans, spans[1:]):
            self.assertLessEqual(before.end, after.begin, (before, after))

    def stop(self, cluster):
        """Ends all processes, which send their last spans then."""
        for process in (cluster.router, *cluster.prefill, *cluster.decode):
            if process.running():
                self.assertEqual(process.terminate(), 0, process.tail())

    def test_a_request_is_one_trace_through_three_processes(self):
        with Collector() as collector, Cluster(
                flags=["--otlp-endpoint", collector.url],
                router_flags=["--http-port", "0", "--otlp-endpoint", collector.url]) as cluster:
            status, answer = complete(cluster.router, 1)
            self.assertEqual(status, 200, answer)
            self.assertEqual(complete(cluster.router, traceparent(2, "00"))[0], 200)
            self.assertEqual(complete(cluster.router, "00-nonsense-01", max_tokens=None)[0], 200)
            self.assertEqual(complete(cluster.router, 3, max_tokens=-1)[0], 400)
            peer = client.Client(cluster.router.grpc)
            list(peer.generate({"text": PROMPT, "spec": {"requestId": "by-grpc", "stop": {"maxTokens": 1}}},
                               metadata=[("traceparent", traceparent(4))]))
            peer.close()
            self.assertIn(f"(trace {trace_id(1)}) ignores EOS", cluster.router.log.read_text())
            workers = (cluster.prefill[0].grpc, cluster.decode[0].grpc)
            wait_until(lambda: cluster.router.metrics().sum("baton_trace_spans_exported_total") > 0,
                       "an export")
            self.stop(cluster)
            self.check_the_whole(Tree(collector.trace(trace_id(1))), workers)
            self.assertEqual(collector.trace(trace_id(2)), [], "the caller wanted no trace")
            self.check_a_trace_of_its_own(collector)
            self.check_the_refused(Tree(collector.trace(trace_id(3))))
            self.check_the_short_one(Tree(collector.trace(trace_id(4))))
            self.check_by_the_proto(collector.bodies)

    def check_the_whole(self, tree, workers):
        self.assertEqual({span.service for span in tree.spans},
                         {"baton-router", "baton-prefill", "baton-decode"})
        root, = tree.roots()
        self.assertEqual(root.parent, CALLER)
        self.assertEqual((root.service, root.name, root.kind), ("baton-router", "text_completion demo", 2))
        self.assertEqual({span.state for span in tree.spans if span.name != "receive"}, {"rojo=1"})
        self.assert_nests(tree)
        self.check_attributes(root.attributes)
        self.assertTrue(root.begin < root.events["first_token"] < root.end)
        stages = tree.under(root)
        self.assertEqual([span.name for span in stages], STAGES)
        self.assert_follow_each_other(stages)
        attempt = stages[-1]
        self.assertEqual({attempt.attributes[f"baton.{role}_worker"] for role in ("prefill", "decode")},
                         set(workers))
        self.assertEqual(attempt.attributes["baton.attempt.outcome"], "finished")
        phases = tree.under(attempt, *PHASES)
        # The decode worker's word on the commit may overtake the prefill worker's first token.
        overtaken = [name for name in PHASES if name != "transfer"]
        self.assertIn([span.name for span in phases], (PHASES, overtaken))
        self.assert_follow_each_other(phases)
        # Nothing of the time is missing: each begins where the one before it ended.
        self.assertEqual(phases[0].begin, attempt.begin)
        self.assertEqual(sum(span.end - span.begin for span in phases), attempt.end - attempt.begin)
        self.check_workers(tree, attempt)

    def check_attributes(self, said):
        for name, value in {"gen_ai.operation.name": "text_completion", "gen_ai.request.model": "demo",
                            "gen_ai.request.max_tokens": 12, "gen_ai.usage.output_tokens": 12,
                            "gen_ai.request.temperature": 0.3,
                            "gen_ai.response.finish_reasons": ["length"], "baton.finish_reason": "length",
                            "baton.transport": "http", "baton.tenant": "default", "baton.attempts": 1,
                            "gen_ai.usage.cache_read.input_tokens": 0}.items():
            self.assertEqual(said[name], value, name)
        self.assertGreater(said["gen_ai.usage.input_tokens"], 5)
        self.assertEqual(said["baton.request_id"], said["gen_ai.response.id"])
        self.assertFalse([key for key, value in said.items() if PROMPT in str(value)])

    def check_workers(self, tree, attempt):
        prefill = tree.one(attempt, "baton.worker.v1.PrefillService/Prefill")
        decode = tree.one(attempt, "baton.worker.v1.DecodeService/Decode")
        self.assertEqual((prefill.service, prefill.kind), ("baton-prefill", 2))
        self.assertEqual((decode.service, decode.kind), ("baton-decode", 2))
        self.assertEqual([span.name for span in tree.under(prefill, "queue", "prefill")], ["queue", "prefill"])
        self.assertEqual([span.name for span in tree.under(decode)], ["queue", "reserved", "decode"])
        push = tree.one(prefill, "push")
        receive = tree.one(push, "receive")
        self.assertEqual(receive.service, "baton-decode")
        self.assertEqual(push.attributes, receive.attributes)
        self.assertGreater(push.attributes["baton.kv.bytes"], 0)
        self.assertEqual(decode.attributes["gen_ai.usage.output_tokens"], 12)

    def check_a_trace_of_its_own(self, collector):
        known = {trace_id(number) for number in (1, 2, 3, 4)}
        roots = Tree([span for span in collector.spans() if span.trace not in known]).roots()
        root, = roots
        self.assertEqual((root.parent, root.attributes["baton.finish_reason"]), (None, "length"))
        # It did not say how much it wants, so it got what completions usually get.
        self.assertEqual(root.attributes["gen_ai.request.max_tokens"], 16)

    def check_the_refused(self, tree):
        root, = tree.roots()
        self.assertTrue(root.failed)
        self.assertEqual(root.attributes["error.type"], "INVALID_MAX_TOKENS")
        self.assertEqual(root.attributes["baton.error.code"], "INVALID_ARGUMENT")
        self.assertEqual([span.name for span in tree.under(root)], ["prepare"])

    def check_the_short_one(self, tree):
        """The first token is the end: no KV cache is handed over, and no worker decodes."""
        root, = tree.roots()
        self.assertEqual((root.attributes["baton.request_id"], root.attributes["baton.transport"]),
                         ("by-grpc", "grpc"))
        attempt = tree.one(root, "attempt")
        self.assertEqual([span.name for span in tree.under(attempt, *PHASES)], ["reserve", "prefill"])

    def check_by_the_proto(self, bodies):
        """The messages of OpenTelemetry's own package take it, field by field."""
        made = subprocess.run([ROOT / "scripts/otlp_proto", "--into",
                               os.environ.get("BATON_OTLP_PROTO", ROOT / "build/otlp-proto")],
                              stdout=subprocess.PIPE, text=True, timeout=600, check=False)
        if made.returncode == NOT_HERE:
            print("not checked: the messages of OpenTelemetry cannot be had here")
            return
        self.assertEqual(made.returncode, 0)
        script = ("import sys\n"
                  "from google.protobuf import json_format\n"
                  "from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (\n"
                  "    ExportTraceServiceRequest as Request)\n"
                  "for line in sys.stdin:\n"
                  "    json_format.Parse(line, Request()).SerializeToString()\n")
        lines = "".join(json.dumps(as_proto3_json(body)) + "\n" for body in bodies)
        run = subprocess.run(["/usr/bin/python3", "-B", "-c", script], input=lines, text=True,
                             capture_output=True, timeout=60, check=False,
                             env=dict(os.environ, PYTHONPATH=made.stdout.strip()))
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_a_replay_shows_both_attempts(self):
        with Collector() as collector, Cluster(
                flags=["--otlp-endpoint", collector.url], decode_flags=["--enable-failpoints"],
                role_environment={"decode": {"BATON_FAILPOINT": "decoding@7:stop"}},
                router_flags=["--http-port", "0", "--otlp-endpoint", collector.url]) as cluster:
            answers = []
            asking = threading.Thread(
                target=lambda: answers.append(complete(cluster.router, 7, max_tokens=40)))
            asking.start()
            again = cluster.replace_stopped_decode()
            asking.join(120)
            self.assertEqual(answers[0][0], 200, answers)
            self.assertIn(f"(trace {trace_id(7)}): attempt 1", cluster.router.log.read_text())
            self.stop(cluster)
            tree = Tree(collector.trace(trace_id(7)))
            root, = tree.roots()
            self.assert_nests(tree)
            self.assert_follow_each_other(tree.under(root))
            self.assertEqual([span.name for span in tree.under(root)], [*STAGES, "queue", "attempt"])
            self.assertEqual(root.attributes["baton.attempts"], 2)
            first, second = tree.under(root, "attempt")
            self.assertTrue(first.failed)
            self.assertIn(first.attributes["baton.attempt.outcome"], ("worker_died", "stream_broken"))
            self.assertEqual(second.attributes["baton.attempt.outcome"], "finished")
            self.assertEqual([span.attributes["baton.attempt"] for span in (first, second)], [1, 2])
            self.assertEqual({span.attributes["baton.decode_worker"] for span in (first, second)}, {again.grpc})
            brought = [span.attributes["baton.attempt.output_tokens"] for span in (first, second)]
            self.assertEqual(sum(brought), 40)
            # The killed one took its spans along; the others stand under the attempt that they worked for.
            self.assertEqual(tree.under(first, "baton.worker.v1.DecodeService/Decode"), [])
            tree.one(first, "baton.worker.v1.PrefillService/Prefill")
            decode = tree.one(second, "baton.worker.v1.DecodeService/Decode")
            self.assertEqual(decode.attributes["baton.attempt"], 2)

    def test_what_nobody_wants_traced_makes_no_connection_and_a_dead_collector_harms_nobody(self):
        with Collector() as collector, Collector(hang=True) as silent, Cluster(
                flags=["--otlp-endpoint", collector.url],
                router_flags=["--http-port", "0", "--trace-sample", "0",
                              "--otlp-endpoint", silent.url]) as cluster:
            status, wanted = complete(cluster.router)
            self.assertEqual(status, 200, wanted)
            cluster.router_flags = ["--http-port", "0"]
            untraced = cluster.spawn_router("untraced").wait_ready()
            cluster.wait_routable(untraced)
            self.assertEqual(complete(untraced, 1)[0], 200)
            self.assertEqual(untraced.terminate(), 0)
            self.assertEqual((collector.connections, silent.connections), (0, 0))
            status, traced = complete(cluster.router, 2)
            self.assertEqual(status, 200, traced)
            self.assertEqual(traced["choices"][0]["text"], wanted["choices"][0]["text"])
            wait_until(lambda: silent.connections, "the router's export")
            self.assertEqual(complete(cluster.router, 3)[0], 200)
            self.stop(cluster)
            self.assertEqual({span.trace for span in collector.spans()}, {trace_id(2), trace_id(3)})
            self.assertEqual({span.service for span in collector.spans()}, {"baton-prefill", "baton-decode"})
            self.assertIn("drained", cluster.router.log.read_text())


if __name__ == "__main__":
    unittest.main()
