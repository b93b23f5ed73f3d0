#!/usr/bin/env bash
# The Python package of a build: its tests, the blocks of docs/python.md, and the example notebook.
#   tests/python_package_test.sh BUILD PYTHON tests|page|notebook
set -euo pipefail
build=$(realpath "$1")
python=$2
part=$3
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 WINNOW_PROGRAM=$build/winnow
cd "$work"
case "$part" in
  tests)
    for file in "$root"/tests/python/{stubs,methods,data,runs,audit}_test.py; do
      PYTHONPATH=$PYTHONPATH:$root/tests/python "$python" "$file" --quiet
    done
    ;;
  page)
    "$python" "$root/tests/python/walk_through.py" "$root/docs/python.md" "$root/README.md" > page.py
    "$python" page.py > output.log 2>&1 || { tail -40 output.log; exit 1; }
    grep -q "^experiment | unknown method 'fedprx' | did you mean 'fedprox'?" output.log
    ;;
  notebook)
    "$python" -c 'import nbclient, ipykernel' 2> /dev/null ||
      { echo "skipped: no nbclient or ipykernel here (./scripts/setup --python)"; exit 77; }
    "$python" "$root/tests/python/notebook_test.py" "$root/examples/notebook/winnow.ipynb"
    ;;
esac
