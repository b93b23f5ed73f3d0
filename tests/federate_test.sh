#!/usr/bin/env bash
# A federation as scripts/federate plays it: the server and three members as processes of their own, over TLS, with
# the program built in $1. It ends in the model of the simulation, which the script compares and this test too.
#   tests/federate_test.sh BUILD SOURCE
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sets=(--set rounds=2 --set data.samples=120 --set data.test_samples=40 --set federation.fraction=1.0)
timeout 240 "$source/scripts/federate" "$source/experiments/synthetic.toml" --program "$build/winnow" --members 3 \
  "${sets[@]}" --out "$work/played" >"$work/output.log" 2>&1 || { tail -n 30 "$work/output.log"; exit 1; }
hash_in() { sed -n 's/^ *"model_hash": "\([0-9a-f]*\)",*$/\1/p' "$1/summary.json"; }
"$build/winnow" run "$source/experiments/synthetic.toml" --set federation.clients=3 "${sets[@]}" \
  --out "$work/alone" --quiet >/dev/null
[[ -n "$(hash_in "$work/alone")" ]]
[[ "$(hash_in "$work/played/served")" == "$(hash_in "$work/alone")" ]]
grep -q "^3 members, served and simulated: model $(hash_in "$work/alone")$" "$work/output.log"
# Every member was a process with a folder of its own.
[[ $(ls -d "$work"/played/client-*/state.json | wc -l) == 3 ]]
echo "three processes end in the model of the simulation"
