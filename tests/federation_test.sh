#!/usr/bin/env bash
# Runs every command of docs/federation.md, in its order, with the program built in $1, in a fresh folder.
#   tests/federation_test.sh BUILD SOURCE
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$2")
work=$(mktemp -d)
trap 'pkill -f "runs/hospitals --port $port" || true; rm -rf "$work"' EXIT
port=none
cd "$work"
ln -s "$source/experiments" .
export PATH="$build:$PATH"
# Another port than the page's: somebody may use that one here.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
python3 - "$source/docs/federation.md" "$port" > commands.sh <<'P'
import re, sys
page = open(sys.argv[1]).read()
print("set -euxo pipefail")
for text in re.findall(r"```sh\n(.*?)```", page, re.S):
    text = text.replace("localhost:8790", f"localhost:{sys.argv[2]}")
    print(text.replace("--out runs/hospitals >", f"--out runs/hospitals --port {sys.argv[2]} >"))
P
[[ $(grep -c '^ *winnow' commands.sh) -ge 12 ]]
timeout 120 bash commands.sh > output.log 2>&1 || { tail -n 40 output.log serve.log; exit 1; }
python3 - <<'P'
import json
served = json.load(open("runs/hospitals/summary.json"))
simulated = json.load(open("runs/simulated/summary.json"))
assert served["model_hash"] == simulated["model_hash"], (served["model_hash"], simulated["model_hash"])
assert served["participations"] == simulated["participations"]
assert json.load(open("runs/hospitals/findings.json"))["flagged"] == [2]
assert simulated["detection"]["flag_precision"] == simulated["detection"]["flag_recall"] == 1
P
echo "every command of the page runs, and the federation ends in the model of the simulation"
