#!/usr/bin/env bash
# The hardware table of docs/gpu.md, as lines of JSON on standard output.
#   docs/gpu-table.sh PATH_OF_EUSN_STREAM [ENGINE]
# ENGINE is gpu; another one shows that the script works on a machine without.
# STREAMS, STEPS and TIME may be set to smaller ones.
set -euo pipefail
program=$(realpath "${1:?usage: docs/gpu-table.sh PATH_OF_EUSN_STREAM [ENGINE]}")
engine=${2:-gpu}
streams=${STREAMS:-1000 10000 100000 1000000}
steps=${STEPS:-1 8 64 512}
time=${TIME:-1s}

# What the figures were taken on. It fails, and with it the script, where there is no GPU.
"$program" bench --engine "$engine" --only engine --units 8 --inputs 1 --streams 8 --steps 8 --time 10ms --json -q >/dev/null
card=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1 || true)
printf '{"bench":"machine","date":"%s","card":"%s","engine":"%s","command":"docs/gpu-table.sh"}\n' "$(date -u +%F)" "${card:-none}" "$engine"

measure() { # units inputs bank
  for b in $streams; do
    for t in $steps; do
      # Samples of 4 bytes; more than 1 GiB is refused.
      if [ $((b * t * $2 * 4)) -gt $((1 << 30)) ]; then continue; fi
      "$program" bench --engine "$engine" --only engine --units "$1" --inputs "$2" --bank "$3" --streams "$b" --steps "$t" --time "$time" --json -q |
        grep '"bench":"engine"' || echo "left out: units $1, inputs $2, bank $3, $b streams, $t samples" >&2
    done
  done
}
for network in "100 6 0" "200 1 0" "200 61 0" "512 16 0" "1024 16 0" "50 4 40"; do
  # shellcheck disable=SC2086 # three arguments
  measure $network
done
