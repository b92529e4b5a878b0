"""Reads a dashboard from standard input into Grafana's types, and writes what they hold to standard output."""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

register_default_plugins()
print(json.dumps(Dashboard.from_json(json.load(sys.stdin)), cls=JSONEncoder))
