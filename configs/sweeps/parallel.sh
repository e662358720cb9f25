#!/bin/bash
# A sweep in PARTS parts with GNU parallel, here or on the machines of --sshlogin options given as further arguments.
#   PARTS=4 SPEC=reference.yaml OUT=results ./parallel.sh
set -u
: "${SPEC:?set SPEC to the sweep file}" "${OUT:?set OUT to a folder for results}" "${PARTS:?set PARTS to the number of parts}"
mkdir -p "$OUT"
seq "$PARTS" | parallel "$@" "${HPPLAN:-hpplan}" sweep "$SPEC" --out "$OUT/part-{}.jsonl" --shard "{}/$PARTS" --threads 1 --progress never
