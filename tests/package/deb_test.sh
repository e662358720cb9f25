#!/bin/bash
# The Debian packages hold what they should, depend on what they need, and the program runs from the unpacked package.
# Skips (exit code 77) where the tools of Debian are missing.
#   deb_test.sh CPACK BUILD_DIR
set -u
cpack=$1
build=$2
fail() { echo "failed: $1"; exit 1; }
for tool in dpkg-deb dpkg-shlibdeps; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is missing (package dpkg-dev)"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$work" >"$work/log" 2>&1 || { cat "$work/log"; fail "cpack"; }
program=$(ls "$work"/hpplan_*.deb) || fail "no package hpplan"
library=$(ls "$work"/libhpplan-dev_*.deb) || fail "no package libhpplan-dev"
dpkg-deb --info "$program"

dpkg-deb --contents "$program" >"$work/files"
for file in /usr/bin/hpplan /usr/share/man/man1/hpplan.1.gz /usr/share/man/man1/hpplan-plan.1.gz \
  /usr/share/bash-completion/completions/hpplan /usr/share/zsh/vendor-completions/_hpplan \
  /usr/share/fish/vendor_completions.d/hpplan.fish /usr/share/hpplan/configs/clusters/b2-b4-64.yaml \
  /usr/share/hpplan/configs/plan.schema.json /usr/share/hpplan/profiles/devices.yaml; do
  grep -q " \.$file$" "$work/files" || fail "$file is not in the package"
done
! grep -qE "\.(a|hpp|cmake)$" "$work/files" || fail "files of the library are in the package of the program"
dpkg-deb --contents "$library" >"$work/library_files"
for file in libhpplan_search.a cmake/hpplan/hpplanConfig.cmake include/hpplan/search/engine.hpp; do
  grep -q "$file$" "$work/library_files" || fail "$file is not in libhpplan-dev"
done

# What Debian's policy asks of every package.
for package in hpplan libhpplan-dev; do
  file=$(ls "$work/${package}"_*.deb)
  dpkg-deb --extract "$file" "$work/policy"
  doc=$work/policy/usr/share/doc/$package
  grep -q "^Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/$" "$doc/copyright" ||
    fail "$package: no copyright file that programs can read"
  gzip -dc "$doc/changelog.Debian.gz" >"$work/changelog" || fail "$package: no changelog"
  [ "$(dpkg-parsechangelog -l "$work/changelog" --show-field Version)" = "$(dpkg-deb --field "$file" Version)" ] ||
    fail "$package: the changelog is of another version"
  [ "$(dpkg-parsechangelog -l "$work/changelog" --show-field Maintainer)" = "$(dpkg-deb --field "$file" Maintainer)" ] ||
    fail "$package: the changelog is of another maintainer"
done
if command -v lintian >/dev/null; then
  # The packages are not uploaded to Debian, so there is no bug for them to close.
  lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$program" "$library" ||
    fail "lintian"
fi

# Every library that the program loads belongs to a package that it depends on.
dpkg-deb --extract "$program" "$work/root"
depends=$(dpkg-deb --field "$program" Depends)
for library in $(objdump -p "$work/root/usr/bin/hpplan" | awk '/NEEDED/ {print $2}'); do
  path=$(ldconfig -p | awk -v name="$library" '$1 == name {print $NF; exit}')
  owner=$(dpkg -S "$(readlink -f "$path")" 2>/dev/null || dpkg -S "$path") || fail "no package has $library"
  owner=${owner%%:*}
  # libm, libpthread and the loader come with libc6.
  case $depends in *"$owner"*) ;; *) fail "$library of $owner is not in Depends: $depends" ;; esac
done
[ "$(dpkg-deb --field "$program" Package)" = hpplan ] || fail "name"
env -u HPPLAN_DATA "$work/root/usr/bin/hpplan" show --cluster b2-b4-64 | grep -q "64 devices" || fail "run from the package"
echo "ok"
