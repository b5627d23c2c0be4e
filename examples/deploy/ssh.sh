#!/usr/bin/env bash
# Starts torchrun on several hosts by SSH and waits for all of them: ssh.sh HOST... -- PROGRAM [ARGUMENT...]
#
# Every host has the current folder under the same path, and openmrc with torch in its folder .venv. The first host is
# the meeting point. Variables: RANKS, ranks on each host (1); PORT, TCP port of the meeting point (29500); OPENMRC_PORTS,
# interfaces of the planes (chosen by openmrc).
set -euo pipefail

hosts=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  hosts+=("$1")
  shift
done
if [ ${#hosts[@]} = 0 ] || [ $# -lt 2 ]; then
  echo "usage: ssh.sh HOST... -- PROGRAM [ARGUMENT...]" >&2
  exit 2
fi
shift

address=${hosts[0]#*@} # without the user of USER@HOST
pids=()
for rank in "${!hosts[@]}"; do
  torchrun=(.venv/bin/torchrun --nnodes "${#hosts[@]}" --node-rank "$rank" --nproc-per-node "${RANKS:-1}"
    --master-addr "$address" --master-port "${PORT:-29500}" "$@")
  command="cd $(printf %q "$PWD") && ${OPENMRC_PORTS:+OPENMRC_PORTS=$(printf %q "$OPENMRC_PORTS") }exec $(printf '%q ' "${torchrun[@]}")"
  ssh -n -o BatchMode=yes "${hosts[$rank]}" "$command" &
  pids+=($!)
done

# A rank that fails ends the others by itself; the exit code is that of the first one that failed.
code=0
for pid in "${pids[@]}"; do
  wait "$pid" || { failed=$?; [ $code != 0 ] || code=$failed; }
done
exit $code
