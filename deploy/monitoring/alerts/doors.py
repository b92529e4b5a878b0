"""HTTP connections and keys."""

from alerts.alert import MODEL, NUMBER, Alert
from rules import GROUP


def alerts():
    return [
        Alert(
            name="BatonApiKeyRefusals",
            severity="warning",
            left=f"sum by ({GROUP}) (rate(baton_api_key_refusals_total[10m]))",
            operator=">",
            threshold="1",
            lasting="10m",
            unit="calls per second",
            summary=f"Calls to {MODEL} come without a known key",
            description=f"{NUMBER} calls per second are refused.",
            means="A client with an old key that tries again and again, or somebody who guesses.",
            look=(
                "Overview, *Calls without a known key*, by instance: all routers, or one? Addresses are known to"
                " what stands in front of them."
            ),
            do="Give the client its key, or close the door to that address there.",
        ),
        Alert(
            name="BatonHttpConnectionsRefused",
            severity="warning",
            left=f"sum by ({GROUP}, instance) (increase(baton_http_connections_refused_total[10m]))",
            operator=">",
            threshold="0",
            lasting="0m",
            unit="connections within 10 minutes",
            summary="Router {{ $labels.instance }} has no room for HTTP connections",
            description=f"About {NUMBER} connections were refused.",
            means="As many as `--http-max-connections` are open, all of them with requests that are being answered.",
            look="Overview, *HTTP connections*.",
            do="More routers, or a higher limit with as many open files.",
        ),
    ]
