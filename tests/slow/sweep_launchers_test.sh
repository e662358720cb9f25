#!/bin/bash
# A sweep in parts through GNU parallel and through a Slurm array equals the sweep as a whole. The Slurm is one node,
# started here and stopped at the end. Skips (exit code 77) where the packages are missing.
#   sweep_launchers_test.sh HPPLAN SOURCE_DIR
set -u
hpplan=$1
source_dir=$2
skip() { echo "skipped: $1"; exit 77; }
fail() { echo "failed: $1"; exit 1; }
for tool in slurmctld slurmd sbatch munged parallel; do
  PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || skip "$tool is missing (packages slurm-wlm, munge, parallel)"
done
[ "$(id -u)" = 0 ] || skip "munged and slurmd of this test need root"
PATH=$PATH:/usr/sbin
work=$(mktemp -d)
chmod 755 "$work"
pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done; wait 2>/dev/null; rm -rf "$work"; }
trap stop EXIT

spec=$source_dir/configs/sweeps/small.yaml
"$hpplan" sweep "$spec" --out "$work/whole.jsonl" --quiet || fail "the whole sweep"
sort "$work/whole.jsonl" >"$work/whole"
[ -s "$work/whole" ] || fail "the whole sweep is empty"
same() { cat "$work/$1"/part-*.jsonl | sort | cmp -s - "$work/whole" || fail "$1: the parts differ from the whole"; echo "$1: ok"; }

PARTS=3 SPEC=$spec OUT=$work/parallel HPPLAN=$hpplan "$source_dir/configs/sweeps/parallel.sh" </dev/null || fail "parallel.sh"
same parallel

mkdir -p "$work/munge" "$work/state" "$work/spool"
dd if=/dev/urandom of="$work/munge/key" bs=1024 count=1 2>/dev/null
chown -R munge:munge "$work/munge"; chmod 700 "$work/munge"; chmod 400 "$work/munge/key"
mkdir "$work/socket"; chown munge:munge "$work/socket"; chmod 755 "$work/socket"
setpriv --reuid=munge --regid=munge --clear-groups munged --foreground --key-file="$work/munge/key" \
  --socket="$work/socket/munge" --pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" >"$work/munged.out" 2>&1 &
pids+=($!)
node=$(hostname -s)
cat >"$work/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$work/socket/munge
SlurmUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,sched_min_interval=10000
NodeName=$node NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=$node Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
for _ in $(seq 50); do [ -S "$work/socket/munge" ] && break; sleep 0.1; done
slurmctld -D -i -f "$SLURM_CONF" >"$work/ctld.out" 2>&1 & pids+=($!)
slurmd -D -f "$SLURM_CONF" -N "$node" >"$work/slurmd.out" 2>&1 & pids+=($!)
for _ in $(seq 150); do sinfo -h -o %T 2>/dev/null | grep -q idle && break; sleep 0.2; done
sinfo -h -o %T | grep -q idle || { tail -5 "$work/slurmctld.log" "$work/slurmd.log"; fail "Slurm did not start"; }

sbatch --wait --array=1-3 --output="$work/job-%a.log" \
  --export=ALL,SPEC="$spec",OUT="$work/array",HPPLAN="$hpplan" "$source_dir/configs/sweeps/array.sbatch" >/dev/null ||
  { cat "$work"/job-*.log; fail "array.sbatch"; }
same array

# Slurm itself says what a node list means.
list='node[01-04,7],b[1-2]r[1-2],login'
scontrol show hostnames "$list" | sort >"$work/names"
"$hpplan" cluster import --slurm "$list" --slurm-tasks '8(x10)' --device a100-80gb --intra-bandwidth '100 GB/s' \
  --inter-bandwidth '25 GB/s' --quiet | sed -n 's/.*node_names: \[\(.*\)\]/\1/p' | tr -d '" ' | tr ',' '\n' | sort | cmp - "$work/names" ||
  fail "node list"
echo "node list: ok"
echo "ok"
