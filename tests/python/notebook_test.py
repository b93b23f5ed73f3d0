"""Executes the example notebook as Jupyter does: notebook_test.py NOTEBOOK, in the current folder."""
import sys

import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
if any(cell.get("outputs") for cell in notebook.cells):
    sys.exit("the notebook was saved with its outputs: clear them")
NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": "."}}).execute()
outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
said = "".join(output.text for output in outputs if output.output_type == "stream")
assert "Warning" not in said, said
assert "notebook: fedavg on python, 6 clients, 8 rounds" in said and "round 8/8" in said, said
pages = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
assert pages[-1].startswith('<iframe srcdoc="') and len(pages[-1]) > 100_000, "the report is not shown"
print(f"{len(outputs)} outputs, none of them an error")
