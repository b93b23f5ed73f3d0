#!/usr/bin/env bash
# scripts/fuzz adds up what several processes of a target have done, and fails when one of them finds something. The
# programs here are none of ours: they say what libFuzzer would.
#   tests/fuzz_script_test.sh SOURCE
set -euo pipefail
source=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; cat "$work/said" >&2; exit 1; }

mkdir -p "$work/scripts" "$work/programs"
cp "$source/scripts/fuzz" "$work/scripts/"
cp -r "$source/fuzz" "$work/"
cat > "$work/programs/fuzz_npy" << 'END'
#!/usr/bin/env bash
for argument in "$@"; do
  case "$argument" in
    -runs=*) runs=${argument#-runs=} ;;
    -artifact_prefix=*) findings=${argument#-artifact_prefix=} ;;
  esac
done
echo "stat::number_of_executed_units: $runs"
# Of the processes that come to it, the first finds something.
if [[ -n ${FINDS:-} ]] && mkdir "$FINDS" 2> /dev/null; then
  echo bad > "${findings}crash-1"
  exit 77
fi
END
cp "$work/programs/fuzz_npy" "$work/programs/fuzz_idx"
chmod +x "$work"/programs/*
fuzz() { "$work/scripts/fuzz" --programs "$work/programs" "$@" > "$work/said" 2>&1; }
expect() { grep -Eq "$1" "$work/said" || fail "expected a line like: $1"; }

fuzz npy --runs 1000 || fail "it failed"
expect '^npy +1,000 +[0-9]+ +0$'
fuzz npy --runs 1000 --processes 3 || fail "it failed with three processes"
expect '^npy +1,002 +[0-9]+ +0$'
[[ -e $work/build/fuzz/npy-2.log ]] || fail "a process has no log"
if FINDS=$work/found fuzz npy --runs 1000 --processes 3; then fail "a finding passed"; fi
expect '^npy +1,002 +[0-9]+ +1  see .*\.log$'
fuzz idx npy --jobs 2 || fail "it failed with two targets"
expect '^npy +100,000 +[0-9]+ +0$'
if fuzz nothing; then fail "a target that there is not passed"; fi
expect 'no target nothing'
if fuzz npy --processes 0; then fail "no processes passed"; fi
expect 'at least one process'
# --fast builds and runs the programs of its own preset.
mkdir -p "$work/bin" "$work/build/fuzz-fast"
printf '#!/usr/bin/env bash\n' > "$work/scripts/setup"
printf '#!/usr/bin/env bash\necho "$*" >> %q\n' "$work/cmake-said" > "$work/bin/cmake"
chmod +x "$work/scripts/setup" "$work/bin/cmake"
cp -r "$work/programs" "$work/build/fuzz-fast/fuzz"
PATH=$work/bin:$PATH "$work/scripts/fuzz" npy --runs 1000 --fast > "$work/said" 2>&1 || fail "it failed with --fast"
expect '^npy +1,000 +[0-9]+ +0$'
grep -qx -e '--preset fuzz-fast' "$work/cmake-said" || fail "the preset of --fast was not configured"
grep -q -e '--build --preset fuzz-fast --target fuzz_npy' "$work/cmake-said" || fail "the preset of --fast was not built"
echo "the script counts right"
