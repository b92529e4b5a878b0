#!/bin/sh
# Makes the stubs in gen/ from ../../proto by protoc and the plug-ins whose versions stand in go.mod.
set -eu
cd "$(dirname "$0")"
proto=../../proto
mkdir -p gen
mapping=
for name in inference model; do
  mapping="$mapping --go_opt=Mbaton/v1/$name.proto=baton/examples/go/gen/baton/v1;batonv1"
  mapping="$mapping --go-grpc_opt=Mbaton/v1/$name.proto=baton/examples/go/gen/baton/v1;batonv1"
done
# shellcheck disable=SC2086
protoc -I"$proto" $mapping \
  --plugin=protoc-gen-go="$(go tool -n protoc-gen-go)" --go_out=gen --go_opt=paths=source_relative \
  --plugin=protoc-gen-go-grpc="$(go tool -n protoc-gen-go-grpc)" --go-grpc_out=gen --go-grpc_opt=paths=source_relative \
  baton/v1/inference.proto baton/v1/model.proto
