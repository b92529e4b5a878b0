"""A collector of traces on loopback: takes OTLP as JSON over HTTP, and is as strict as the protocol."""

import base64
import http.server
import json
import re
import threading

TEXT, NUMBER = re.compile(r"(?s).*"), re.compile(r"0|[1-9][0-9]*")
TRACE_ID, SPAN_ID = re.compile(r"(?!0{32})[0-9a-f]{32}"), re.compile(r"(?!0{16})[0-9a-f]{16}")
# The messages that are used, by their JSON names: a pattern for text, a type, a message, or [a message].
MESSAGES = {
    "request": {"resourceSpans": ["resource_spans"]},
    "resource_spans": {"resource": "resource", "scopeSpans": ["scope_spans"]},
    "resource": {"attributes": ["attribute"]},
    "scope_spans": {"scope": "scope", "spans": ["span"]},
    "scope": {"name": TEXT, "version": TEXT},
    "span": {"traceId": TRACE_ID, "spanId": SPAN_ID, "traceState": TEXT, "parentSpanId": SPAN_ID,
             "flags": int, "name": TEXT, "kind": int, "startTimeUnixNano": NUMBER,
             "endTimeUnixNano": NUMBER, "attributes": ["attribute"], "events": ["event"],
             "status": "status"},
    "event": {"timeUnixNano": NUMBER, "name": TEXT},
    "status": {"message": TEXT, "code": int},
    "attribute": {"key": TEXT, "value": "value"},
    "array": {"values": ["value"]},
    "value": {"stringValue": TEXT, "boolValue": bool, "intValue": re.compile(r"0|-?[1-9][0-9]*"),
              "doubleValue": (int, float), "arrayValue": "array"},
}


def check(value, kind, where="request"):
    """Raises unless `value` is in the protocol's JSON form, with no field that we do not know."""
    if isinstance(kind, list):
        assert isinstance(value, list), where
        for index, item in enumerate(value):
            check(item, kind[0], f"{where}[{index}]")
    elif isinstance(kind, str):
        assert isinstance(value, dict) and value.keys() <= MESSAGES[kind].keys(), (where, value)
        assert kind != "value" or len(value) == 1, (where, value)
        for key, item in value.items():
            check(item, MESSAGES[kind][key], f"{where}.{key}")
    elif isinstance(kind, re.Pattern):
        assert isinstance(value, str) and kind.fullmatch(value), (where, value)
    else:
        assert isinstance(value, kind) and (kind is bool or not isinstance(value, bool)), (where, value)


def plain(value):
    """What an attribute says."""
    (kind, inner), = value.items()
    if kind == "arrayValue":
        return [plain(item) for item in inner["values"]]
    return int(inner) if kind == "intValue" else inner


class Span:
    """One span, with the service that it came from."""

    def __init__(self, service, span):
        self.service, self.name, self.kind = service, span["name"], span["kind"]
        self.trace, self.id = span["traceId"], span["spanId"]
        self.parent, self.state = span.get("parentSpanId"), span.get("traceState")
        self.begin, self.end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        self.attributes = {a["key"]: plain(a["value"]) for a in span["attributes"]}
        self.events = {event["name"]: int(event["timeUnixNano"]) for event in span.get("events", ())}
        self.failed = span.get("status", {}).get("code") == 2

    def __repr__(self):
        return f"{self.service}: {self.name} {self.attributes}"


class Collector:
    """Use as a context manager. `hang`: it takes connections and never answers."""

    def __init__(self, hang=False):
        self.bodies, self.mistakes, self.connections = [], [], 0
        self._lock, self._released = threading.Lock(), threading.Event()
        if not hang:
            self._released.set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                with outer._lock:
                    outer.connections += 1

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer._released.wait(60)
                outer._take(self.path, self.headers["Content-Type"], body)
                try:
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", "2")
                    self.end_headers()
                    self.wfile.write(b"{}")
                except OSError:
                    self.close_connection = True  # nobody waited so long

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def _take(self, path, kind, body):
        with self._lock:
            try:
                assert (path, kind) == ("/v1/traces", "application/json"), (path, kind)
                request = json.loads(body.decode())
                check(request, "request")
                self.bodies.append(request)
            except (AssertionError, ValueError) as mistake:
                self.mistakes.append(repr(mistake))

    def spans(self):
        with self._lock:
            assert not self.mistakes, self.mistakes
            found = []
            for resource in (r for body in self.bodies for r in body["resourceSpans"]):
                said = {a["key"]: plain(a["value"]) for a in resource["resource"]["attributes"]}
                for scope in resource["scopeSpans"]:
                    found += [Span(said["service.name"], span) for span in scope["spans"]]
            return found

    def trace(self, trace_id):
        return [span for span in self.spans() if span.trace == trace_id]


def as_proto3_json(request):
    """The same with ids as the JSON form of protobuf has bytes: OTLP writes them in hexadecimal."""
    def convert(value):
        if isinstance(value, list):
            return [convert(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {key: base64.b64encode(bytes.fromhex(item)).decode()
                if key in ("traceId", "spanId", "parentSpanId") else convert(item)
                for key, item in value.items()}
    return convert(request)
