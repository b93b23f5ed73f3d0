#!/usr/bin/env bash
# Runs the small form of every recipe of the papers, of the benchmarks of others and of the arena:
#   recipes_test.sh BUILD SOURCE
set -euo pipefail
export build=$1 recipes=$2/experiments
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # no data set of the user's is found from here

small_form() {
  local name=${1#"$recipes/"}
  local out=${name//\//-}
  if ! "$build/winnow" sweep "$1" --scale smoke --slim --quiet --lanes 1 --out "$out" >"$out.log" 2>&1; then
    echo "$name: $(cat "$out.log")"
    return 1
  fi
  rm -r "$out"
}
export -f small_form
printf '%s\0' "$recipes"/papers/*/*.toml "$recipes"/benchmarks/*.toml "$recipes"/arena*.toml |
  xargs -0 -n 1 -P 2 bash -c 'small_form "$1"' small_form
