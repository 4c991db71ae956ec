#!/usr/bin/env bash
# kill -9 the stage in the middle of its work, again and again, and compare every prediction with those of an
# undisturbed run: stream, sequence number, row, class, score bits and flags.
#   docs/kill-and-restart.sh [PATH-TO-eusn-stream] [KILLS]
set -euo pipefail
bin=$(realpath "${1:-./eusn-stream}")
kills=${2:-5}
work=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

echo "training on simulated data"
"$bin" demo --quiet --progress none --train-series 120 --test-series 600 >demo.txt
port=$((20000 + RANDOM % 20000))
args=(--model demo-data/machine.safetensors --port $port --partitions 8 --json --quiet)
want=600 # predictions: one for each test series

# start NAME: the stage on its own data directory, predictions appended to NAME.jsonl
start() { "$bin" run "${args[@]}" --dir "$1" >>"$1.jsonl" 2>>"$1.log" & stage=$!; }
wait_for() { # NAME: until all predictions are stored
  for _ in $(seq 600); do
    [ "$(sort -u "$1.jsonl" | grep -c '"class"' || true)" -ge $want ] && return
    kill -0 $stage 2>/dev/null || { echo "the stage ended:"; tail -3 "$1.log"; exit 1; }
    sleep 0.1
  done
  echo "only $(sort -u "$1.jsonl" | wc -l) of $want predictions came"; exit 1
}
listening() { for _ in $(seq 100); do (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return; sleep 0.1; done; echo "the stage does not listen"; exit 1; }
replay() { "$bin" replay demo-data/machine.parquet --nats-url "nats://127.0.0.1:$port" --rows 16 --progress none --quiet "$@"; }

echo "an undisturbed run"
start calm; listening; replay >/dev/null; wait_for calm
kill $stage; wait $stage || true

echo "the same with $kills kills"
start killed; listening
replay --send-rate 160 --speed 1x >/dev/null 2>replay.log & publisher=$!   # about two seconds
for _ in $(seq "$kills"); do
  sleep 0.$((RANDOM % 5 + 2))
  kill -9 $stage; wait $stage 2>/dev/null || true
  echo "  killed"
  start killed; listening
done
wait $publisher
wait_for killed
kill $stage; wait $stage || true

# The printer starts anew with each run: lines may come twice in the file, never two different ones for one series.
sort -u calm.jsonl >a; sort -u killed.jsonl >b
if cmp -s a b; then
  echo "$(wc -l <a) of $want predictions equal the undisturbed run"
else
  diff a b | head; echo "DIFFERENT"; exit 5
fi
