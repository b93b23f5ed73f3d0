#!/usr/bin/env bash
# Runs every command of docs/guide.md, in its order, with the program built in $1, in a fresh folder, and then those of
# "Use it" in the README in another.
#   tests/guide_test.sh BUILD SOURCE
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ln -s "$source/experiments" "$source/examples" .
mkdir build
ln -s "$build" build/release
export PATH="$build:$PATH"

# The page's blocks as one script: TOML is saved under the name its text gives, shell is run as it stands.
python3 - "$source/docs/guide.md" > commands.sh <<'P'
import re, sys
page = open(sys.argv[1]).read()
print("set -euxo pipefail")
for before, kind, text in re.findall(r"([^\n]*)\n*\n```(toml|sh)\n(.*?)```", page, re.S):
    if kind == "toml":
        name = re.search(r"`([\w-]+\.toml)`", before).group(1)
        open(name, "w").write(text)
    else:
        print(text)
P
[[ -f my-sweep.toml && -f my-photos.toml && $(grep -c '^winnow' commands.sh) -ge 10 ]]
bash commands.sh > output.log 2>&1 || { tail -40 output.log; exit 1; }
[[ -s my-sweep.html && -s my-photos.html && -s my-pictures/curves.csv ]]

# A first run must not look broken: it learns, noise hurts, and the methods repair it.
python3 - <<'P'
import json
def last(run):
    return json.load(open(f"runs/{run}/summary.json"))["last"]
def first(name):
    return last(f"first/{name}_s1")
def mean(name):
    return (last(f"my-sweep/{name}_s1") + last(f"my-sweep/{name}_s2")) / 2
assert last("synthetic") == first("fedavg") > 0.8
assert min(first("fedavg-clean-labels"), first("fedcorr")) > first("fedavg") + 0.04
assert first("oracle") > first("fedavg") + 0.02
assert mean("clipfl-over-fedprox") > mean("fedavg") > 0.9
assert min(last("my-photos"), last("my-arrays"), last("fednear")) > 0.9
P
echo "every command of the guide runs, and its runs learn"

mkdir readme
cd readme
ln -s "$source/experiments" .
sed -n '/^## Use it$/,/^## /p' "$source/README.md" | sed -n '/^```sh$/,/^```$/{/^```/!p}' > commands.sh
[[ $(grep -c '^winnow' commands.sh) -ge 4 ]] || { echo "the README has lost its commands"; exit 1; }
bash -euxo pipefail commands.sh > output.log 2>&1 || { tail -40 output.log; exit 1; }
[[ -s runs/try/summary.json && -s report.html ]]
echo "every command of the README's \"Use it\" runs"
