"""The Go example."""

import scenes

scenes.need("go", "protoc")
scenes.need_version(["go", "env", "GOVERSION"], 1, 24)
folder = scenes.copied("go")
# The toolchain that is there, whatever its age; the sums of what is fetched stand in go.sum.
# -trimpath as scripts/kube_tools has it: what that compiled of the standard library serves here.
environment = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -trimpath", "GOWORK": "off", "CGO_ENABLED": "0"}
scenes.build(["./generate.sh"], folder, environment)
scenes.build(["go", "vet", "."], folder, environment)
scenes.build(["go", "build", "-o", "example", "."], folder, environment)
scenes.check([folder / "example"])
