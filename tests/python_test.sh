#!/usr/bin/env bash
# Python's PyTorch reads what Winnow writes. $1 is the program winnow, $2 the program write_models.
set -euo pipefail
winnow=$1
write_models=$2
python=${WINNOW_PYTHON:-/usr/bin/python3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -c 'import torch' || { echo "python3-torch is missing: scripts/setup --python installs it" >&2; exit 1; }

# Of each family; the largest ones differ from these in depth only.
models=(lenet5 lenet5_valid cnn4 cnn2 resnet18 mobilenet convmixer_256_8 vit_tiny)
"$write_models" "$work" "${models[@]}"
"$python" "$here/python/check_models.py" models "$work" "${models[@]}"
"$python" "$here/python/check_peer.py"

cat > "$work/experiment.toml" <<'END'
rounds = 2
[data]
name = "fashion-mnist"
train_limit = 600
test_limit = 500
[federation]
clients = 4
fraction = 0.5
[model]
name = "lenet5"
[train]
epochs = 1
lr = 0.05
END
"$winnow" run "$work/experiment.toml" --device cpu --out "$work/run" --quiet
data=/usr/share/datasets/fashion-mnist
"$python" "$here/python/check_models.py" run "$work/run" \
  "$data/t10k-images-idx3-ubyte.gz" "$data/t10k-labels-idx1-ubyte.gz"
