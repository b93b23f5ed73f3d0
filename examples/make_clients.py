#!/usr/bin/env python3
"""Writes made-up images of six clients as PNG files, DEST/CLIENT/CLASS/NUMBER.png: squares, bars and crosses.

    make_clients.py DEST

Of client_2 and client_5 three labels of ten are wrong; DEST-truth.csv says which. Needs nothing but Python.
"""
import pathlib, random, struct, sys, zlib

SIDE = 16
CLASSES = ["bar", "cross", "square"]


def draw(kind, random):
    image = [[random.randrange(40) for _ in range(SIDE)] for _ in range(SIDE)]
    top, left, size = random.randrange(1, 5), random.randrange(1, 5), random.randrange(8, 11)
    for y in range(size):
        for x in range(size):
            middle_row, middle_column = abs(y - size // 2) < 2, abs(x - size // 2) < 2
            on = {"square": y in (0, 1, size - 2, size - 1) or x in (0, 1, size - 2, size - 1),
                  "bar": middle_row, "cross": middle_row or middle_column}[kind]
            if on:
                image[top + y][left + x] = 200 + random.randrange(55)
    return image


def png(image):
    rows = b"".join(b"\0" + bytes(row) for row in image)
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


dest = pathlib.Path(sys.argv[1])
draws = random.Random(1)
lines = ["name,true_label,given_label"]
for client in range(1, 7):
    for number in range(90):
        kind = CLASSES[number % 3]
        given = kind
        if client in (2, 5) and draws.random() < 0.3:
            given = CLASSES[(number + draws.choice([1, 2])) % 3]
        name = f"client_{client}/{given}/{number:03d}.png"
        file = dest / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(draw(kind, draws)))
        lines.append(f"{name},{kind},{given}")
pathlib.Path(f"{dest}-truth.csv").write_text("\n".join(lines) + "\n")
