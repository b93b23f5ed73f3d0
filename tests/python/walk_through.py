"""The blocks of docs/python.md as one program, which this prints: walk_through.py PAGE README | python3 -

The README shows the first block of the page, which has fewer than ten lines."""
import re
import sys


def blocks_of(file):
    with open(file, encoding="utf-8") as page:
        return re.findall(r"^```python\n(.*?)^```$", page.read(), re.M | re.S)


blocks = blocks_of(sys.argv[1])
if len(blocks) < 9:
    sys.exit("the page has lost its blocks")
if blocks_of(sys.argv[2]) != blocks[:1]:
    sys.exit(f"{sys.argv[2]} does not show the first block of {sys.argv[1]}")
if blocks[0].count("\n") >= 10:
    sys.exit("the first block has ten lines or more")
print("\n".join(blocks))
