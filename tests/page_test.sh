#!/usr/bin/env bash
# A page written by the program, and one served by it, opened in Chromium.
#   tests/page_test.sh BUILD SOURCE
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$2")
work=$(mktemp -d)
watch=
stop() {
  [[ -z $watch ]] || kill "$watch" 2> /dev/null || true
  rm -rf "$work"
}
trap stop EXIT
cd "$work"
[[ -d $source/web/node_modules ]] || (cd "$source/web" && npm ci --silent)

cat > page.toml <<'T'
name = "page"
rounds = 3
[data]
name = "synthetic"
samples = 400
test_samples = 100
[federation]
clients = 6
fraction = 0.5
[[noise]]
name = "fedcorr_labels"
rho = 0.5
tau = 0.5
[model]
name = "lenet5"
[train]
epochs = 1
[grid]
seed = [1, 2]
[[row]]
name = "fedavg"
set = {}
[[row]]
name = "fedcorr"
set = { "method.name" = "fedcorr", "method.iterations" = 1, "method.finetune_rounds" = 1, "method.usual_rounds" = 1 }
T
"$build/winnow" sweep page.toml --quiet
"$build/winnow" report runs/page -o page.html > /dev/null
"$build/winnow" watch runs/page --port 0 > watch.log &
watch=$!
for _ in $(seq 100); do
  address=$(grep -o 'http://127.0.0.1:[0-9]*/' watch.log || true)
  [[ -z $address ]] || break
  sleep 0.1
done
[[ -n $address ]] || { echo "winnow watch does not say where it serves"; cat watch.log; exit 1; }
WINNOW_PAGE="$work/page.html" WINNOW_WATCH="$address" node "$source/web/test/program.mjs"
