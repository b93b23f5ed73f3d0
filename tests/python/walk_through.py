"""The blocks of docs/python.md as one program, which this prints: walk_through.py PAGE | python3 -"""
import re
import sys

with open(sys.argv[1], encoding="utf-8") as page:
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read(), re.M | re.S)
if len(blocks) < 8:
    sys.exit("the page has lost its blocks")
print("\n".join(blocks))
