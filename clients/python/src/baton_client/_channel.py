"""How a client reaches a router: addresses, certificates and what each call carries."""

from __future__ import annotations

import dataclasses
import os
import pathlib

import grpc

# A router that vanished without a word is noticed within 30 s, also by a call that waits in its queue and hears
# nothing for longer: gRPC stops asking after two pings otherwise. One that comes back is found within a second.
_OPTIONS = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", 64 << 20),
    # A router is reached directly; a proxy of the environment is there for other addresses.
    ("grpc.enable_http_proxy", 0),
)

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Tls:
    """PEM files: the authority that the router's certificate comes from, and the client's own with its key.

    Without `cert` the router must take clients without one (`--tls-client-certs optional`). `server_name` is the
    name that the router's certificate is to have, where it is not the one that is dialled: "router", which all
    routers' certificates have.
    """

    ca: Path
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key belong together: expected both or none of them")
        read = [None if path is None else pathlib.Path(path).read_bytes()
                for path in (self.ca, self.key, self.cert)]
        return grpc.ssl_channel_credentials(*read)


def channel_options(tls: Tls | None) -> list[tuple[str, str | int]]:
    options: list[tuple[str, str | int]] = list(_OPTIONS)
    if tls is not None and tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return options


def metadata_of(api_key: str | None, tenant: str | None) -> list[tuple[str, str]]:
    metadata = []
    if api_key is not None:
        metadata.append(("authorization", f"Bearer {_visible('api_key', api_key)}"))
    if tenant is not None:
        metadata.append(("baton-tenant", _visible("tenant", tenant)))
    return metadata


def _visible(name: str, value: str) -> str:
    """`value`, which a header has to take as it is. gRPC refuses others late, and without saying which."""
    if not value:
        raise ValueError(f"{name} is empty: expected visible ASCII characters, or None for none")
    for place, character in enumerate(value):
        if not "!" <= character <= "~":
            raise ValueError(f"character {place} of {name} is {character!r}: expected visible ASCII characters; "
                             "strip() what was read from a file")
    return value
