#!/usr/bin/env bash
# Runs the commands of docs/own-model.md as they stand there. $1 is the program winnow.
set -euo pipefail
winnow=$1
root=$(cd "$(dirname "$0")/.." && pwd)
python=${WINNOW_PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -c 'import torch' || { echo "python3-torch is missing: run scripts/setup" >&2; exit 1; }
mkdir "$work/bin"
ln -s "$winnow" "$work/bin/winnow"
ln -s "$python" "$work/bin/python3"
cp -r "$root/examples" "$work/examples"
sed -n '/^```sh$/,/^```$/{/^```/!p}' "$root/docs/own-model.md" > "$work/commands.sh"
[[ $(wc -l < "$work/commands.sh") -ge 5 ]] || { echo "the page has lost its commands" >&2; exit 1; }
cd "$work"
PATH="$work/bin:$PATH" bash -euxo pipefail commands.sh
