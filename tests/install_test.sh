#!/usr/bin/env bash
# Installs the build given as $1 into a fresh prefix, builds examples/own_method ($2) against it with
# find_package(winnow), and runs its experiment with the method that the example adds.
set -euo pipefail
build=$1
example=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
"$work/prefix/bin/winnow" --version
cmake -G Ninja -S "$example" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="${3:-}" > "$work/configure.log" ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" || exit 1
"$work/build/own_method" list methods | grep -q '^fedmid'
"$work/build/own_method" run "$example/experiment.toml" --out "$work/run" --json --quiet |
  grep -q '"method": "fedmid"'
echo "the installed library carries a method of its own"
