#!/bin/bash
# An installed hpplan works from its new place, and a program of its own builds on it with find_package(hpplan).
#   install_test.sh CMAKE BUILD_DIR CXX GENERATOR SANITIZERS
set -u
cmake=$1
build=$2
cxx=$3
generator=$4
if [ -n "$5" ]; then
  echo "skipped: a program that builds on hpplan does not have its sanitizers ($5)"
  exit 77
fi
fail() { echo "failed: $1"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/first" >/dev/null || fail "install"
mv "$work/first" "$work/prefix"  # what is installed does not know where it was put
prefix=$work/prefix
for file in bin/hpplan share/hpplan/configs/models/gpt3-13b.yaml share/hpplan/profiles/devices.yaml \
  share/hpplan/configs/sweeps/parallel.sh share/bash-completion/completions/hpplan share/zsh/site-functions/_hpplan \
  share/fish/vendor_completions.d/hpplan.fish share/doc/hpplan/README.md share/doc/hpplan/docs/using.md include/hpplan/search/engine.hpp; do
  [ -f "$prefix/$file" ] || fail "$file is not installed"
done
ls "$prefix"/share/man/man1/hpplan-profile-import.1* >/dev/null || fail "manual pages are not installed"
[ -x "$prefix/share/hpplan/configs/sweeps/parallel.sh" ] || fail "scripts lost their permission"
! ls -d "$prefix"/include/hpplan/*/detail >/dev/null 2>&1 || fail "private headers are installed"

cd "$work" || exit 1
unset HPPLAN_DATA
"$prefix/bin/hpplan" plan --model gpt3-350m --cluster b2-b4-4 --global-batch 8 --micro-batch 1,2 --quiet --json >plan.json || fail "plan"
"$prefix/bin/hpplan" check plan.json >/dev/null || fail "check"
# The build tree's program finds the source tree's files; this one must find its own.
rm -r "$prefix/share/hpplan/configs/models"
! "$prefix/bin/hpplan" show --model gpt3-350m >/dev/null 2>&1 || fail "found files of another place"

cp -r "$prefix/share/doc/hpplan/example" example
"$cmake" -S example -B example/build -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >configure.log 2>&1 || { cat configure.log; fail "configure the example"; }
"$cmake" --build example/build >build.log 2>&1 || { cat build.log; fail "build the example"; }
example/build/plan_on_the_spot >out || fail "run the example"
cat out
grep -q "^made-up on two-and-two, global batch 64$" out || fail "no plan"
grep -q "proved optimal" out || fail "the plan is not proved"
grep -q "all stage times are measured" out || fail "the times are not those of the program"
echo "ok"
