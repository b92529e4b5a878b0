# Shared by the scripts of this folder; sourced, not run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly min_rust_minor=87

# What building and running the four binaries needs.
readonly build_packages=(
  cmake ninja-build g++ pkg-config ccache
  libgrpc++-dev libssl-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libabsl-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev
  libhwy-dev libre2-dev libzstd-dev
  prometheus-cpp-dev libcpp-httplib-dev libcurl4-openssl-dev libboost-dev)
# What the tests need on top.
readonly test_packages=(
  libgtest-dev libgmock-dev clang-format python3 python3-grpcio
  python3-matplotlib python3-protobuf python3-zstandard python3-yaml python3-jsonschema
  python3-venv prometheus iproute2)
# What packing needs on top (cpack, deploy/docker), and the tests of it.
readonly package_packages=(binutils ca-certificates dpkg-dev file mmdebstrap python3)
readonly package_test_packages=(buildah systemd)
# What fuzzing needs on top (scripts/fuzz). This version stands in CMakePresets.json, too.
readonly fuzz_packages=(clang-16 libclang-rt-16-dev)
# What fetching the CUDA toolkit needs where none is installed (scripts/cuda_toolkit).
readonly cuda_packages=(python3 python3-pip)
readonly rust_packages=(rustc-web cargo-web)

started=$SECONDS
downloading=0  # seconds
step_number=0
step_total=${step_total:-0}

say() { printf '%s\n' "$*" >&2; }
die() { say "$1"; exit "${2:-1}"; }

# Seconds as minutes:seconds.
clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }
# Since the script began.
elapsed() { clock $((SECONDS - started)); }

# download COMMAND...: runs it; its time is told apart from that of the rest.
download() {
  local began=$SECONDS result=0
  "$@" || result=$?
  downloading=$((downloading + SECONDS - began))
  return $result
}

closing_line() {
  say "[$(elapsed)] done: downloads $(clock $downloading)," \
    "everything else $(clock $((SECONDS - started - downloading)))"
}

# step "what": numbered, with the time.
step() {
  step_number=$((step_number + 1))
  say "[$(elapsed)] step $step_number of $step_total: $1"
}

missing_packages() {
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s ' "$name"
  done
}

# The minor version of `cargo` in the PATH (1.N), or 0.
rust_minor() {
  [ -x "$HOME/.cargo/bin/cargo" ] && PATH="$HOME/.cargo/bin:$PATH"
  cargo --version 2>/dev/null | sed -nE 's/^cargo 1\.([0-9]+)\..*/\1/p' | grep . || echo 0
}

# Installs what is missing of the named Debian packages and a Rust toolchain, or says in one line
# what to type and exits 2.
install_packages() {
  command -v dpkg-query >/dev/null || die "this needs Debian 12 (dpkg-query not found); install the
packages listed in scripts/lib.sh by other means and build with: cmake --preset cpu" 2
  local missing
  missing=$(missing_packages "$@")
  if [ "$(rust_minor)" -lt "$min_rust_minor" ]; then
    missing+=$(missing_packages "${rust_packages[@]}")
  fi
  if [ -n "${missing// /}" ]; then
    if [ "$(id -u)" -ne 0 ]; then
      say "missing Debian packages; type this, then run again:"
      die "  sudo apt-get update && sudo apt-get install -y --no-install-recommends $missing" 2
    fi
    say "installing: $missing"
    export DEBIAN_FRONTEND=noninteractive
    download apt-get update -qq >&2 || die "apt-get update failed: see above" 2
    # shellcheck disable=SC2086
    download apt-get install -y -qq --no-install-recommends --download-only $missing >/dev/null &&
      apt-get install -y -qq --no-install-recommends $missing >/dev/null ||
      die "apt-get install failed; type: apt-get install -y --no-install-recommends $missing" 2
  fi
  local minor
  minor=$(rust_minor)
  if [ "$minor" -lt "$min_rust_minor" ]; then
    [ "$minor" -eq 0 ] && say "cargo was not found" || say "cargo 1.$minor is too old"
    say "Rust 1.$min_rust_minor or newer is needed; type this, then run again:"
    die "  sudo apt-get install -y ${rust_packages[*]}" 2
  fi
}

# Crates are fetched once; the build itself is offline.
fetch_crates() {
  [ -x "$HOME/.cargo/bin/cargo" ] && export PATH="$HOME/.cargo/bin:$PATH"
  local manifest=$root/common/rust/Cargo.toml
  cargo fetch --quiet --locked --offline --manifest-path "$manifest" 2>/dev/null ||
    download cargo fetch --quiet --locked --manifest-path "$manifest" >&2 ||
    die "the Rust crates could not be fetched; type: cargo fetch --locked --manifest-path $manifest" 2
}

# configure PRESET tests|binaries: only when not done yet, CMake redoes it by itself after that. Without
# the tests their packages are not needed; a build folder that has them serves for both.
configure() {
  local preset=$1 want=$2 options=()
  local cache=$root/build/$preset/CMakeCache.txt
  if [ -f "$root/build/$preset/build.ninja" ]; then
    [ "$want" = binaries ] && return
    grep -q '^BATON_TESTS:BOOL=ON' "$cache" && return
  fi
  [ "$want" = binaries ] && options=(-DBATON_TESTS=OFF -DBATON_BENCHMARKS=OFF)
  mkdir -p "$root/build"
  (cd "$root" && cmake --preset "$preset" "${options[@]}" >"$root/build/$preset.configure.log" 2>&1) ||
    { cat "$root/build/$preset.configure.log" >&2; die "configuring $preset failed"; }
  rm -f "$root/build/$preset.configure.log"
}
