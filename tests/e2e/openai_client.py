"""The OpenAI protocol with nothing but Python's own library: an independent view of the wire."""

import contextlib
import http.client
import json
import socket


class Http:
    """Calls of one server, "host:port", each on a connection of its own."""

    def __init__(self, address, key=None, timeout_s=60):
        self.address = address
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._timeout_s = timeout_s

    def call(self, method, path, body=None, headers=None):
        """(status, headers in lower case, body as text). `body` is sent as JSON unless it is bytes."""
        with contextlib.closing(http.client.HTTPConnection(self.address, timeout=self._timeout_s)) as link:
            link.request(method, path, self._bytes(body), {**self._sent(body), **(headers or {})})
            answer = link.getresponse()
            return (answer.status, {name.lower(): value for name, value in answer.getheaders()},
                    answer.read().decode())

    def get(self, path):
        status, _, body = self.call("GET", path)
        return status, json.loads(body)

    def post(self, path, body):
        status, _, text = self.call("POST", path, body)
        return status, json.loads(text)

    def complete(self, **fields):
        """The answer of /v1/completions, or of the chat if there are messages."""
        status, answer = self.post(path_of(fields), fields)
        assert status == 200, answer
        return answer

    def refuse(self, **fields):
        """(status, the error) of a request that is to be refused."""
        status, answer = self.post(path_of(fields), fields)
        assert status != 200, answer
        return status, answer["error"]

    def stream(self, **fields):
        """The chunks of a stream, which must end with [DONE]."""
        fields = {"stream": True, **fields}
        status, headers, body = self.call("POST", path_of(fields), fields)
        assert status == 200, body
        assert headers["content-type"] == "text/event-stream; charset=utf-8", headers
        events = events_of(body)
        assert events[-1] == "[DONE]", events[-1]
        return [json.loads(event) for event in events[:-1]]

    def _sent(self, body):
        return {**self._headers, **({} if body is None else {"Content-Type": "application/json"})}

    @staticmethod
    def _bytes(body):
        return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()


def path_of(fields):
    return "/v1/chat/completions" if "messages" in fields else "/v1/completions"


def events_of(body):
    """What stands behind each "data: "."""
    assert body.endswith("\n\n"), body[-100:]
    events = body[:-2].split("\n\n")
    assert all(event.startswith("data: ") and "\n" not in event for event in events), body
    return [event.removeprefix("data: ") for event in events]


def text_of(chunks):
    """The text of all chunks of a stream."""
    parts = [choice.get("text") or choice.get("delta", {}).get("content") or ""
             for chunk in chunks for choice in chunk["choices"]]
    return "".join(parts)


class Raw:
    """A connection that sends exactly the bytes it is told to."""

    def __init__(self, address, timeout_s=60):
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout_s)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def send(self, data):
        self._socket.sendall(data)

    def read_until(self, end):
        data = b""
        while end not in data:
            piece = self._socket.recv(1 << 16)
            if not piece:
                break
            data += piece
        return data


def head(path, body_bytes=None, *lines):
    """The header of a POST."""
    length = () if body_bytes is None else (f"Content-Length: {body_bytes}",)
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
                        *length, *lines, "", "")).encode()
