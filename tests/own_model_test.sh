#!/usr/bin/env bash
# Runs the commands of docs/own-model.md as they stand there. $1 is the program winnow.
set -euo pipefail
winnow=$1
root=$(cd "$(dirname "$0")/.." && pwd)
python=${WINNOW_PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -c 'import torch' || { echo "python3-torch is missing: scripts/setup --python installs it" >&2; exit 1; }
mkdir "$work/bin"
ln -s "$winnow" "$work/bin/winnow"
cp -r "$root/examples" "$work/examples"
sed -n '/^```sh$/,/^```$/{/^```/!p}' "$root/docs/own-model.md" | sed "s|/usr/bin/python3|$python|" > "$work/commands.sh"
[[ $(wc -l < "$work/commands.sh") -ge 5 ]] || { echo "the page has lost its commands" >&2; exit 1; }
cd "$work"
PATH="$work/bin:$PATH" bash -euxo pipefail commands.sh

# What torch.jit.trace writes: refused where a layer would keep the mode of the trace, otherwise
# taken with a notice.
"$python" - <<'END'
import torch
from torch import nn
images = torch.zeros(2, 1, 28, 28)
norm = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Dropout(),
                     nn.Linear(2 * 26 * 26, 10))
torch.jit.script(norm).save("scripted.pt")
torch.jit.trace(norm.eval(), images).save("eval.pt")
torch.jit.trace(norm.train(), images, check_trace=False).save("train.pt")
torch.jit.trace(nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10)), images).save("plain.pt")
END
cat > small.toml <<'END'
rounds = 1
[data]
name = "synthetic"
samples = 40
test_samples = 20
[federation]
clients = 2
[model]
name = "torchscript"
END
run() { "$winnow" run small.toml --set model.path="$1.pt" --out "runs/$1" 2> "$1.err"; }
for mode in eval train; do
  code=0
  run "$mode" || code=$?
  [[ $code == 3 ]] || { echo "a traced module ended with $code" >&2; exit 1; }
  grep -q "made with torch.jit.trace, so its batch_norm and dropout would stay" "$mode.err"
done
run plain
grep -q "plain.pt was made with torch.jit.trace: " plain.err
run scripted
if grep -q "torch.jit" scripted.err; then
  echo "a scripted module was taken for a traced one" >&2
  exit 1
fi
