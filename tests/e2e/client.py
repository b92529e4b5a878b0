"""A gRPC client in Python made from the protos at run time: an independent view of the wire."""

import functools
import pathlib
import subprocess
import tempfile

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from cluster import ROOT

PROTO_ROOT = ROOT / "proto"


@functools.lru_cache(maxsize=None)
def _pool():
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "set"
        files = sorted(p.relative_to(PROTO_ROOT).as_posix() for p in PROTO_ROOT.glob("**/*.proto"))
        subprocess.run(["protoc", f"-I{PROTO_ROOT}", "--include_imports",
                        f"--descriptor_set_out={out}", *files], check=True)
        file_set = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in file_set.file:
        pool.Add(file)
    return pool


def message(name):
    """The class of a message by its full name."""
    return message_factory.MessageFactory(_pool()).GetPrototype(_pool().FindMessageTypeByName(name))


class Client:
    """One channel. Requests are dicts in proto JSON form."""

    def __init__(self, address, credentials=None, options=()):
        self._channel = (grpc.secure_channel(address, credentials, options) if credentials
                         else grpc.insecure_channel(address, options))

    def close(self):
        self._channel.close()

    def stream(self, method, request, timeout_s=60, metadata=None):
        """A server-streaming call; iterate over it, or cancel() it."""
        return self._call(self._channel.unary_stream, method, request, timeout_s, metadata)

    def unary(self, method, request, timeout_s=60):
        return self._call(self._channel.unary_unary, method, request, timeout_s)

    def future(self, method, request, timeout_s=60):
        """As unary, without waiting; the result, or cancel(), comes later."""
        descriptor = self._method(method)
        return self._stub(self._channel.unary_unary, method).future(
            self._body(descriptor, request), timeout=timeout_s)

    def converse(self, method, requests, timeout_s=60):
        """A call that streams what the iterator `requests` gives; iterate over its answers."""
        descriptor = self._method(method)
        bodies = (self._body(descriptor, request) for request in requests)
        return self._stub(self._channel.stream_stream, method)(bodies, timeout=timeout_s)

    def exchange(self, method, requests, timeout_s=60):
        """A call that streams `requests` and whose answers stream too; a list of these."""
        return list(self.converse(method, requests, timeout_s))

    def _call(self, kind, method, request, timeout_s, metadata=None):
        return self._stub(kind, method)(self._body(self._method(method), request), timeout=timeout_s,
                                        metadata=metadata)

    @staticmethod
    def _method(method):
        service, name = method.split("/")
        return _pool().FindServiceByName(service).methods_by_name[name]

    @staticmethod
    def _body(descriptor, request):
        return json_format.ParseDict(request, message(descriptor.input_type.full_name)())

    def _stub(self, kind, method):
        return kind(
            f"/{method}",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=message(self._method(method).output_type.full_name).FromString)

    def generate(self, request, timeout_s=60, metadata=None):
        return self.stream("baton.v1.InferenceService/Generate", request, timeout_s, metadata)


def reason_of(error):
    """The ErrorInfo reason in the details of a failed call, or ""."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in message("google.rpc.Status").FromString(value).details:
                if detail.type_url.endswith("google.rpc.ErrorInfo"):
                    return message("google.rpc.ErrorInfo").FromString(detail.value).reason
    return ""


def has_retry_info(error):
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return b"google.rpc.RetryInfo" in value
    return False
