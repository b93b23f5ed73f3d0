#!/usr/bin/env bash
# Runs every command of docs/audit.md, in its order, with the program built in $1, in a fresh folder; those of the section
# "In a real federation" only, and apart from the others, where a third argument says so.
#   tests/audit_test.sh BUILD SOURCE [federation]
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$2")
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$work"' EXIT
cd "$work"
ln -s "$source/experiments" "$source/examples" .
export PATH="$build:$PATH"

# The page's blocks as one script: TOML is saved under the name its text gives, shell is run as it stands.
python3 - "$source/docs/audit.md" "${3:-}" > commands.sh <<'P'
import re, sys
page = open(sys.argv[1]).read()
before, section, after = re.split(r"(?m)(?=^## In a real federation\n|^## Measured\n)", page)
page = section if sys.argv[2] == "federation" else before + after
print("set -euxo pipefail")
for before, kind, text in re.findall(r"([^\n]*)\n*\n```(toml|sh)\n(.*?)```", page, re.S):
    if kind == "toml":
        name = re.search(r"`([\w-]+\.toml)`", before).group(1)
        open(name, "w").write(text)
    elif "experiments/audit/" not in text:  # what takes minutes
        print(text)
P
if [[ "${3:-}" == federation ]]; then
  timeout 300 bash commands.sh > output.log 2>&1 || { tail -40 output.log serve.log; exit 1; }
  winnow run experiments/audit-federation.toml --out runs/simulated --quiet > /dev/null
  python3 - <<'P'
import csv, json
served = json.load(open("runs/audited/findings.json"))
simulated = json.load(open("runs/simulated/findings.json"))
for name, score in simulated["scores"].items():
    assert served["scores"][name]["by_client"] == score["by_client"], name
assert served["flagged"] == simulated["flagged"] == [1, 4], served["flagged"]
for k in range(6):
    own = json.load(open(f"hospital-{k}/audit/audit.json"))["clients"][0]
    rows = list(csv.DictReader(open(f"hospital-{k}/audit/samples.csv")))
    flagged = sum(row["is_label_issue"] == "true" for row in rows)
    assert flagged == own["label_issues"] == served["scores"]["label_issues"]["by_client"][str(k)], (k, flagged)
    assert own["verdict"] == ("label noise" if k in (1, 4) else "nothing wrong"), own
    assert f"client-{k}" in open(f"hospital-{k}/audit/audit.html").read()
P
  echo "every command of the section runs, and a federation audits itself as its simulation does"
  exit 0
fi
[[ -f shapes.toml && $(grep -c '^winnow' commands.sh) -ge 5 ]]
bash commands.sh > output.log 2>&1 || { tail -40 output.log; exit 1; }
[[ -s shapes-audit/audit.html && -s shapes-audit/audit.csv && -s shapes-evidence/evidence.csv ]]
"$source/experiments/audit/score-samples" shapes-audit/samples.csv shapes-truth.csv

# What it found is what the folder holds: two bad clients, most wrong labels, few right ones.
python3 - <<'P'
import csv, json
truth = {row["name"]: row["true_label"] for row in csv.DictReader(open("shapes-truth.csv"))}
rows = list(csv.DictReader(open("shapes-audit/samples.csv")))
wrong = {row["name"] for row in rows if truth[row["name"]] != row["given_label"]}
called = {row["name"] for row in rows if row["is_label_issue"] == "true"}
assert len(wrong & called) >= 0.8 * len(wrong), (len(wrong & called), len(wrong))
assert len(wrong & called) >= 0.8 * len(called), (len(wrong & called), len(called))
clients = {row["name"]: row for row in csv.DictReader(open("shapes-audit/audit.csv"))}
for name, row in clients.items():
    assert (row["kind"] != "none") == (name in ("client_2", "client_5")), row
P
set +e
winnow audit shapes --set data.image_size=16 --rounds 1 --folds 2 --out gate --fail-on 'label_noise >= 0%' -q > /dev/null 2> error.log
code=$?
set -e
[[ $code == 9 ]] && grep -q "label_noise is .*, and --fail-on says >= 0.00%" error.log
echo "every command of the audit's page runs, and finds what is wrong"
