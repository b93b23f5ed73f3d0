#!/usr/bin/env bash
# The files about the project agree with each other, and the commit hook stops what it should.
#   tests/house_test.sh SOURCE VERSION
set -euo pipefail
source=$(realpath "$1")
version=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

grep -qx "version: $version" "$source/CITATION.cff" || fail "CITATION.cff: expected version $version, that of CMakeLists.txt"
for key in cff-version message title authors; do
  grep -q "^$key:" "$source/CITATION.cff" || fail "CITATION.cff has no $key, which CFF 1.2 requires"
done
columns=$(sed -n 's/^ColumnLimit: //p' "$source/.clang-format")
sed -n '/^\[\*\.{h,cpp/,/^$/p' "$source/.editorconfig" | grep -qx "max_line_length = $columns" ||
  fail ".editorconfig: expected max_line_length = $columns for C++, as .clang-format has it"

for file in $(grep -lE '^(\[grid\]|\[\[row\]\]|\[\[column\]\]|methods = )' "$source"/experiments/*.toml); do
  grep -q "^| .*\`$(basename "$file")\`" "$source/experiments/README.md" ||
    fail "experiments/README.md: $(basename "$file") is a sweep, but not in the table of sweeps"
done

command -v git > /dev/null || { echo "no git here: the hook is not tried"; exit 0; }
command -v clang-format > /dev/null || { echo "no clang-format here: the hook is not tried"; exit 0; }
cd "$source"
mkdir "$work/tree"
tar -c --exclude=./build --exclude=./runs --exclude=./data --exclude=./web/node_modules --exclude=./.git . |
  tar -x -C "$work/tree"
cd "$work/tree"
git init -q
git config user.name test
git config user.email test@example.org
git config core.hooksPath scripts/hooks
git add -A
git commit -q --no-verify -m "Begin"

commit() { git add -A && git commit -q -m "Try" > "$work/log" 2>&1; }
expect_refused() {
  if commit; then fail "the hook let pass: $1"; fi
  grep -q "$1" "$work/log" || { cat "$work/log"; fail "the hook did not say: $1"; }
  git reset -q --hard
}

echo "Fine." >> docs/fuzzing.md
commit || { cat "$work/log"; fail "the hook refused a good commit"; }
printf 'int  badly( );\n' >> src/winnow/base/text.h
expect_refused 'src/winnow/base/text.h is not formatted'
echo "[gone](nowhere.md)" >> docs/fuzzing.md
expect_refused 'there is no nowhere.md'
sed -i '0,/#include "/s//#include "winnow\/run\/session.h"\n&/' src/winnow/stats/lid.cpp
expect_refused 'stats may not use run'
sed -i '0,/#include "/s//#include "winnow\/mpi\/ranks.h"\n&/' src/winnow/net/serve/desk.cpp
expect_refused 'net may not use mpi'
sed -i '0,/#include "/s//#include "winnow\/method\/base\/moon\/moon.h"\n&/' src/winnow/method/trainer/gce/gce.cpp
expect_refused 'trainer/gce may not use base/moon, another method'
printf 'trailing \n' >> docs/fuzzing.md
expect_refused 'trailing whitespace'
# What counts is what is staged.
echo "// Fine." >> src/winnow/base/text.h
git add -A
printf 'int  badly( );\n' >> src/winnow/base/text.h
git commit -q -m "Try" > "$work/log" 2>&1 || { cat "$work/log"; fail "the hook looked at what is not staged"; }
echo "the house is in order"
