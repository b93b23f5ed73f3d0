#!/usr/bin/env bash
# Runs the small form of every recipe of the papers: recipes_test.sh BUILD SOURCE
set -euo pipefail
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # no data set of the user's is found from here
failed=0
for recipe in "$source"/experiments/papers/*/*.toml; do
  name=${recipe#"$source/experiments/papers/"}
  if ! "$build/winnow" sweep "$recipe" --scale smoke --slim --quiet --jobs 2 --lanes 1 --out "$work/runs" >log 2>&1; then
    failed=1
    echo "$name: $(cat log)"
  fi
  rm -rf "$work/runs"
done
exit "$failed"
