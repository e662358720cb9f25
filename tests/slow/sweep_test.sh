#!/bin/bash
# Sweeps with the real planner: 500 small problems on two threads in under a minute; a sweep killed at 50 random moments
# loses and doubles nothing; two shards together equal the whole.
#   sweep_test.sh HPPLAN
set -u
hpplan=$1
fail() { echo "failed: $1"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

batches=$(seq -s ', ' 8 8 1000)
cat >"$work/spec.yaml" <<SPEC
base: {model: gpt3-350m, micro_batch: [1, 2, 4]}
grid:
  cluster: [b2-b3-4, b2-b4-4, b3-b4-4, a100-3090-4]
  global_batch: [$batches]
SPEC
start=$(date +%s%N)
"$hpplan" sweep "$work/spec.yaml" --out "$work/whole.jsonl" --threads 2 || fail "the sweep"
milliseconds=$((($(date +%s%N) - start) / 1000000))
echo "500 problems in $milliseconds ms"
[ "$(wc -l <"$work/whole.jsonl")" = 500 ] || fail "not 500 lines"
[ "$milliseconds" -lt 60000 ] || fail "more than a minute"
sort "$work/whole.jsonl" >"$work/whole"

for part in 1 2; do
  "$hpplan" sweep "$work/spec.yaml" --out "$work/part-$part.jsonl" --shard "$part/2" --threads 2 --quiet || fail "part $part"
done
cat "$work"/part-*.jsonl | sort | cmp - "$work/whole" || fail "the parts differ from the whole"
echo "shards: ok"

RANDOM=7  # a fixed seed: the moments differ only as the machine does
for kill in $(seq 50); do
  "$hpplan" sweep "$work/spec.yaml" --out "$work/killed.jsonl" --threads 2 --quiet &
  pid=$!
  sleep "0.$(printf %03d $((RANDOM % 400)))"
  kill -9 "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
done
echo "killed 50 times; $(wc -l <"$work/killed.jsonl") lines by then"
"$hpplan" sweep "$work/spec.yaml" --out "$work/killed.jsonl" --threads 2 || fail "after the kills"
sort "$work/killed.jsonl" | cmp - "$work/whole" || fail "the killed sweep differs"
echo "ok"
