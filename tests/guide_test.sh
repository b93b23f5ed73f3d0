#!/usr/bin/env bash
# Runs every command of docs/guide.md, in its order, with the program built in $1, in a fresh folder.
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

# A folder of small pictures, one colour per class, as a user would bring.
python3 - <<'P'
import os, struct, zlib
def png(path, colour):
    rows = b"".join(b"\0" + bytes(colour) * 16 for _ in range(16))
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)) +
                   part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))
for number, name in enumerate(["apples", "berries", "cherries"]):
    os.makedirs(f"photos/{name}")
    for i in range(20):
        png(f"photos/{name}/{i}.png", (80 * number, 10 * i, 255 - 80 * number))
import io, random, zipfile
def npy(shape, data, kind):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data
with zipfile.ZipFile("arrays.npz", "w") as file:
    for part, count in (("train", 60), ("test", 12)):
        labels = [i % 3 for i in range(count)]
        images = b"".join(bytes([80 * label + random.randrange(60)]) * 28 * 28 for label in labels)
        file.writestr(f"{part}_images.npy", npy((count, 28, 28), images, "|u1"))
        file.writestr(f"{part}_labels.npy", npy((count,), struct.pack(f"<{count}q", *labels), "<i8"))
P

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
[[ -f my-sweep.toml && $(grep -c '^winnow' commands.sh) -ge 10 ]]
bash commands.sh > output.log 2>&1 || { tail -40 output.log; exit 1; }
[[ -s my-sweep.html && -f runs/own-folder/summary.json && -f runs/own-npz/summary.json ]]
echo "every command of the guide runs"
