#!/usr/bin/env python3
"""Writes a small set of pictures as a user would bring it, with Python's own modules alone.

  make.py [FOLDER]     FOLDER/photos/{train,test}/CLASS/*.png and the same images as FOLDER/arrays.npz

Three classes of round fruit that differ in colour. A tenth of the training pictures lies in the folder of
another class; the test pictures are right.
"""
import pathlib
import random
import struct
import sys
import zipfile
import zlib

SIDE = 32
FRUIT = {"apples": (90, 180, 60), "berries": (70, 70, 190), "cherries": (200, 40, 50)}
PICTURES = {"train": 80, "test": 20}  # of each class


def picture(colour, draw):
    """A disc of about this colour somewhere on grey, as SIDE * SIDE * 3 bytes."""
    x, y, radius = draw.uniform(12, 20), draw.uniform(12, 20), draw.uniform(6, 11)
    disc = [min(255, max(0, part + draw.randint(-40, 40))) for part in colour]
    ground = [draw.randint(60, 200)] * 3
    return bytes(part for row in range(SIDE) for column in range(SIDE)
                 for part in (disc if (row - y) ** 2 + (column - x) ** 2 < radius ** 2 else ground))


def write_png(path, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[3 * SIDE * row:3 * SIDE * (row + 1)] for row in range(SIDE))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def npy(shape, kind, data):
    """An array as numpy.save writes it."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
draw = random.Random(1)
folder.mkdir(parents=True, exist_ok=True)
with zipfile.ZipFile(folder / "arrays.npz", "w") as archive:
    for part, count in PICTURES.items():
        images, labels = [], []
        for number in range(count):
            for label, colour in enumerate(FRUIT.values()):
                given = (label + 1) % len(FRUIT) if part == "train" and number % 10 == 0 else label
                images.append(picture(colour, draw))
                labels.append(given)
                name = f"{number:03d}-{len(images):03d}.png"
                write_png(folder / "photos" / part / list(FRUIT)[given] / name, images[-1])
        archive.writestr(f"{part}_images.npy", npy((len(images), SIDE, SIDE, 3), "|u1", b"".join(images)))
        archive.writestr(f"{part}_labels.npy", npy((len(labels),), "<i8", struct.pack(f"<{len(labels)}q", *labels)))
print(f"{folder / 'photos'} and {folder / 'arrays.npz'}: {len(FRUIT)} classes, "
      f"{PICTURES['train']} training and {PICTURES['test']} test pictures of each")
