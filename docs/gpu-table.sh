#!/usr/bin/env bash
# The hardware table of docs/gpu.md, as lines of JSON on standard output.
#   docs/gpu-table.sh PATH_OF_EUSN_STREAM [ENGINE]
# ENGINE is gpu; another one shows that the script works on a machine without.
# STREAMS, STEPS, NETWORKS (units inputs bank; ...) and TIME may be set to fewer or
# smaller ones; LIMIT is seconds after which what is left is named and left out.
# What is left out is said on standard error, with the reason.
set -euo pipefail
program=$(realpath "${1:?usage: docs/gpu-table.sh PATH_OF_EUSN_STREAM [ENGINE]}")
engine=${2:-gpu}
streams=${STREAMS:-1000 10000 100000 1000000}
steps=${STEPS:-1 8 64 512}
time=${TIME:-1s}
limit=${LIMIT:-}
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# What the figures were taken on. It fails, and with it the script, where there is no GPU.
"$program" bench --engine "$engine" --only engine --units 8 --inputs 1 --streams 8 --steps 8 --time 10ms --json -q >/dev/null
card=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1 || true)
printf '{"bench":"machine","date":"%s","card":"%s","engine":"%s","command":"docs/gpu-table.sh"}\n' "$(date -u +%F)" "${card:-none}" "$engine"

left_out() { echo "left out: units $1, inputs $2, bank $3, $b streams, $t samples: $4" >&2; }

measure() { # units inputs bank
  for b in $streams; do
    for t in $steps; do
      if [ -n "$limit" ] && [ $SECONDS -ge "$limit" ]; then
        left_out "$@" "the LIMIT of $limit s is over; run again with other STREAMS, STEPS or NETWORKS"
        continue
      fi
      # Samples of 4 bytes, a bank's before it adds the differences.
      channels=$2
      if [ "$3" -gt 0 ]; then channels=$(($2 / 2)); fi
      if [ $((b * t * channels * 4)) -gt $((1 << 30)) ]; then
        left_out "$@" "more than 1 GiB of samples in one call"
        continue
      fi
      # A row that fails, for want of memory mostly, leaves the others alone.
      if row=$("$program" bench --engine "$engine" --only engine --units "$1" --inputs "$2" --bank "$3" --streams "$b" --steps "$t" --time "$time" --json -q 2>"$errors"); then
        grep '"bench":"engine"' <<<"$row" || left_out "$@" "no row"
      else
        left_out "$@" "$(head -1 "$errors")"
      fi
    done
  done
}
IFS=';' read -ra networks <<<"${NETWORKS:-100 6 0;200 1 0;200 61 0;512 16 0;1024 16 0;50 4 40}"
for network in "${networks[@]}"; do
  # shellcheck disable=SC2086 # three arguments
  measure $network
done
