#!/usr/bin/env bash
# Makes the Debian packages of a build and looks into them: fields, files, and what runs from an unpacked root.
# scripts/check-package installs them in a clean root.   tests/package_test.sh BUILD
set -euo pipefail
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

for tool in dpkg-deb dpkg-shlibdeps file; do
  command -v "$tool" > /dev/null || { echo "no $tool here: skipped"; exit 77; }
done
grep -q 'CPACK_GENERATOR "DEB"' "$build/CPackConfig.cmake" || { echo "not over Debian's LibTorch: skipped"; exit 77; }

# Fast to compress: this is not the package that is handed out.
(cd "$work" && cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/packages" \
  -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip > cpack.log 2>&1) || { cat "$work/cpack.log"; exit 1; }
program=$(echo "$work"/packages/winnow_*_amd64.deb)
development=$(echo "$work"/packages/libwinnow-dev_*_amd64.deb)
[[ -f $program && -f $development ]] || fail "the packages are not there"

field() { dpkg-deb -f "$1" "$2"; }
[[ $(field "$program" Maintainer) == "The Winnow authors" ]] || fail "the maintainer is another"
version=$(sed -n 's/^version: //p' "$(dirname "$0")/../CITATION.cff")
[[ $(field "$program" Version) == "$version" ]] || fail "CITATION.cff has another version than the package"
for library in libc6 libtorch libfmt libopenblas zlib1g libopencv-core libopencv-imgcodecs; do
  [[ $(field "$program" Depends) == *"$library"* ]] || fail "the program does not depend on $library"
done
[[ $(field "$program" Depends) != *-dev* ]] || fail "the program depends on a package for development"
[[ $(field "$development" Depends) == *libtorch-dev* ]] || fail "the library does not depend on libtorch-dev"

dpkg-deb -x "$program" "$work/root"
cd "$work/root/usr"
for file in bin/winnow share/man/man1/winnow.1 share/bash-completion/completions/winnow \
  share/zsh/vendor-completions/_winnow share/fish/vendor_completions.d/winnow.fish share/doc/winnow/copyright \
  share/doc/winnow/docs/install.md share/doc/winnow/experiments/synthetic.toml; do
  [[ -s $file ]] || fail "the package has no /usr/$file"
done
[[ ! -e include && ! -e lib ]] || fail "the program's package holds parts of the library"
dpkg-deb -c "$development" > "$work/list"
for file in include/winnow/method/method.h libwinnow_core.a libwinnow_cli.a cmake/winnow/winnow-config.cmake; do
  grep -q "/$file\$" "$work/list" || fail "libwinnow-dev has no $file"
done

python=$(echo "$work"/packages/python3-winnow_*_amd64.deb)
if [[ -f $python ]]; then
  for package in "python3 (<< " python3-torch python3-numpy libtorch; do
    [[ $(field "$python" Depends) == *"$package"* ]] || fail "python3-winnow does not depend on $package"
  done
  dpkg-deb -x "$python" "$work/python-root"
  place=$work/python-root/usr/lib/python3/dist-packages
  [[ -s $place/winnow/__init__.pyi && -s $place/winnow/_core.pyi && -s $work/python-root/usr/share/doc/python3-winnow/copyright ]] ||
    fail "python3-winnow lacks files"
  PYTHONPATH=$place /usr/bin/python3 -c "import winnow; assert winnow.__file__.startswith('$place'); winnow.methods()" ||
    fail "python3-winnow cannot be imported"
fi

# The programs that winnow becomes, where this build has them.
for part in mpi net; do
  package=$(echo "$work"/packages/winnow-"$part"_*_amd64.deb)
  if [[ -f $build/winnow-$part ]]; then
    [[ -f $package ]] || fail "there is no package winnow-$part"
    [[ $(field "$package" Depends) == *"winnow (= $version)"* ]] || fail "winnow-$part does not depend on winnow"
    dpkg-deb -c "$package" | grep -q "/usr/bin/winnow-$part\$" || fail "winnow-$part lacks its program"
  fi
done

cd "$work"
"$work/root/usr/bin/winnow" run "$work/root/usr/share/doc/winnow/experiments/synthetic.toml" --set rounds=1 \
  --set data.samples=400 --out run --quiet
[[ -f run/summary.json ]] || fail "the unpacked program does not run"
bash -c "source '$work/root/usr/share/bash-completion/completions/winnow'
  COMP_WORDS=(winnow describe fedp) COMP_CWORD=2; _winnow; [[ \${COMPREPLY[*]} == fedprox ]]" ||
  fail "the completion does not work"
if command -v groff > /dev/null; then
  groff -man -Tutf8 -ww -P-cbou "$work/root/usr/share/man/man1/winnow.1" > page.txt 2> warnings.txt
  [[ ! -s warnings.txt ]] || { cat warnings.txt; fail "groff warns of the manual page"; }
  grep -q 'EXIT STATUS' page.txt || fail "the manual page is not one"
fi
echo "the packages are in order"
