"""The Node example."""

import scenes

scenes.need("node", "npm", "protoc")
scenes.need_version(["node", "--version"], 20)
folder = scenes.copied("node")
installed, lock = folder / "node_modules/.package-lock.json", folder / "package-lock.json"
if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
    scenes.build(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder)
scenes.build(["npm", "run", "--silent", "generate"], folder)
scenes.check(["node", folder / "example.js"])
