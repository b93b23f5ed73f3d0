#!/usr/bin/env bash
# Goes through the steps of "A new method" in CONTRIBUTING.md in a copy of the source tree: a folder, a page and a line.
# What is missing is named; with all three the method is in the program, in its docs and in a run. Only the new folder
# and the list of methods are compiled; the rest is that of the build.
#   tests/new_method_test.sh BUILD SOURCE
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; cat "$work/log" >&2 || true; exit 1; }
own_experiment=$source/examples/own_method/experiment.toml

[[ -f $build/build.ninja ]] || { echo "skipped: this build is not Ninja's"; exit 77; }
mkdir "$work/tree"
tree=$work/tree
tar -C "$source" -c --exclude=./build --exclude=./runs --exclude=./data --exclude=./web/node_modules \
  --exclude=./.git . | tar -x -C "$tree"
refused() {
  if "$tree/scripts/check-layers" > "$work/log"; then fail "check-layers did not say: $1"; fi
  grep -qxF "$1" "$work/log" || fail "check-layers did not say: $1"
}

# 1. A folder; the method is that of examples/own_method.
folder=src/winnow/method/base/fednear
mkdir "$tree/$folder"
python3 - "$source/examples/own_method/main.cpp" > "$tree/$folder/fednear.cpp" << 'P'
import sys
text = open(sys.argv[1]).read()
print(f"""#include <ATen/ATen.h>

#include "winnow/method/base/fedavg/fedavg.h"

namespace winnow {{

{text[text.index("// FedAvg that gives"):text.index("int main")]}
MethodInfo fednear_info() {{
  return {{.name = "fednear",
          .group = "base",
          .summary = "FedAvg in which models that moved far count less",
          .make = [] {{ return std::make_unique<FedNear>(); }}}};
}}

}}  // namespace winnow""")
P
refused "src/winnow/method/methods.def has no line WINNOW_METHOD(fednear) for $folder"

# 3. A line.
sed -i 's/^WINNOW_METHOD(fedprox)$/&\nWINNOW_METHOD(fednear)/' "$tree/src/winnow/method/methods.def"
refused 'there is no page docs/methods/fednear.md'

# 2. A page, whose tables are filled in below.
sed 's/fedprox/fednear/g; s/FedProx/FedNear/g; s/^mu = .*/strength = 0.5/' "$source/docs/methods/fedprox.md" |
  sed '/^<!-- [a-z]* fednear -->$/,/^<!-- end -->$/{/^<!--/!d}' > "$tree/docs/methods/fednear.md"
"$tree/scripts/check-layers" > "$work/log" || fail "check-layers is not content"

# A line without its folder is named too, and a folder that lost its function.
mv "$tree/$folder" "$work/fednear"
refused 'src/winnow/method/methods.def names fednear, but no folder of a method defines fednear_info()'
mkdir "$tree/$folder"
refused "$folder defines no function NAME_info()"
rmdir "$tree/$folder"
mv "$work/fednear" "$tree/$folder"

# CMake finds the folder by itself.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
cmake -G Ninja -S "$tree" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$(cached CMAKE_PREFIX_PATH)" -DTorch_DIR="$(cached Torch_DIR)" -DWINNOW_TESTS=OFF -DWINNOW_BENCH=OFF -DWINNOW_NET=OFF -DWINNOW_MPI=OFF \
  -DWINNOW_PYTHON=OFF > "$work/log" 2>&1 || fail "CMake refuses the tree"
grep -rqF "$tree/$folder/fednear.cpp" "$work/build/src" "$work/build/build.ninja" || fail "CMake has not found $folder"

# The program of the build with the new folder and the new list of methods in front.
python3 - "$build" "$source" "$tree" "$work" << 'P'
import json
import pathlib
import shlex
import subprocess
import sys
build, source, tree, work = sys.argv[1:]
methods = [entry for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text())
           if "method" in entry["file"] and "/tests/" not in entry["file"]]
entry = methods[0]
objects = []
for name in ["method/base/fednear/fednear.cpp", "method/registry.cpp"]:
    words = shlex.split(entry["command"].replace(f"-I{source}/src", f"-I{tree}/src"))
    words[words.index("-o") + 1] = f"{work}/{pathlib.Path(name).stem}.o"
    words[words.index("-c") + 1] = f"{tree}/src/winnow/{name}"
    subprocess.run(words, cwd=entry["directory"], check=True)
    objects.append(words[words.index("-o") + 1])
link = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", "winnow"], capture_output=True, text=True,
                      check=True).stdout.splitlines()[-1]
first = link.index(" src/")
link = f"{link[:first]} {' '.join(objects)} -Wl,--allow-multiple-definition{link[first:]}"
subprocess.run(link.replace(" -o winnow ", f" -o {work}/winnow "), shell=True, cwd=build, check=True)
P
"$work/winnow" list methods > "$work/log"
grep -q '^  fednear  *FedAvg in which models that moved far count less$' "$work/log" || fail "it is not listed"
export WINNOW=$work/winnow
if "$tree/scripts/docs" --check > "$work/log"; then fail "scripts/docs --check passes a page without tables"; fi
"$tree/scripts/docs" > "$work/log"
"$tree/scripts/docs" --check > "$work/log" || fail "scripts/docs does not fill in the tables"
# shellcheck disable=SC2016
grep -q '^| `strength` | `1.0` | >= 0 | ' "$tree/docs/methods/fednear.md" || fail "its page has no table of parameters"
grep -qF '**The server needs** individual models: it weighs every model' "$tree/docs/methods/fednear.md" ||
  fail "its page does not say what the server needs"
grep -qF '[fednear](docs/methods/fednear.md)' "$tree/README.md" || fail "the README does not list it"
"$work/winnow" run "$own_experiment" --set rounds=1 --out "$work/run" --quiet > "$work/log" ||
  fail "it does not run"
grep -q '"method": "fednear"' "$work/run/summary.json" || fail "the run was not one of it"
echo "a folder, a page and a line make a method"
