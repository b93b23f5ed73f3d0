#!/usr/bin/env bash
# Installs the build given as $1 into a fresh prefix, builds examples/own_method ($2) against it with
# find_package(winnow), and runs its experiment with the method that the example adds. The README shows the
# same code.
set -euo pipefail
build=$1
example=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 - "$example/main.cpp" "$example/../../README.md" <<'P'
import sys
code, readme = (open(name).read() for name in sys.argv[1:])
if code[code.index("// FedAvg that gives"):] not in readme:
    sys.exit("README.md does not show the method of examples/own_method/main.cpp as it is there")
P

cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
"$work/prefix/bin/winnow" --version
for file in man/man1/winnow.1 bash-completion/completions/winnow fish/vendor_completions.d/winnow.fish \
  doc/winnow/copyright doc/winnow/README.md; do
  [[ -s $work/prefix/share/$file ]] || { echo "share/$file is not installed"; exit 1; }
done
# A part that the build knows but has not built, as after scripts/quickstart, is left out.
if [[ -f $build/python/cmake_install.cmake ]]; then
  sed 's/_core\.cpython/_absent.cpython/g' "$build/python/cmake_install.cmake" > "$work/python.cmake"
  cmake -DCMAKE_INSTALL_PREFIX="$work/without" -P "$work/python.cmake" > "$work/without.log"
  [[ ! -e $work/without ]] || { echo "half a Python package is installed"; exit 1; }
fi
sed 's/winnow-mpi"/absent-mpi"/g; s/winnow-net"/absent-net"/g' "$build/cmake_install.cmake" > "$work/parts.cmake"
for part in mpi net; do
  cmake -DCMAKE_INSTALL_PREFIX="$work/parts" -DCMAKE_INSTALL_COMPONENT=$part -P "$work/parts.cmake" > "$work/parts.log"
done

cmake -G Ninja -S "$example" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="${3:-}" > "$work/configure.log" ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" || exit 1
"$work/build/own_method" list methods | grep -qw fednear

# The model that the example's experiment ends with, under further settings.
model() {
  "$work/build/own_method" run "$example/experiment.toml" --out "$(mktemp -d -p "$work")/run" --json --quiet "$@" |
    sed -n 's/.*"model_hash": "\(.*\)".*/\1/p'
}
own=$(model)
fedavg=$(model --set 'method={ name = "fedavg" }')
[[ -n $own && $own != "$fedavg" && $(model --set method.strength=0) == "$fedavg" ]] ||
  { echo "strength 1 must differ from FedAvg, and strength 0 must not"; exit 1; }
echo "the installed library carries a method of its own"
