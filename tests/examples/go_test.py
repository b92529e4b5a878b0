"""The Go example."""

import scenes

scenes.need("go", "protoc")
folder = scenes.copied("go")
# The toolchain that is there, whatever its age; the sums of what is fetched stand in go.sum.
environment = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}
scenes.build(["./generate.sh"], folder, environment)
scenes.build(["go", "vet", "."], folder, environment)
scenes.build(["go", "build", "-o", "example", "."], folder, environment)
scenes.check([folder / "example"])
