#!/usr/bin/env bash
# A stage that gets better while it runs: record, label, learn, promote, roll back.
#   docs/learn-and-promote.sh [PATH-TO-eusn-stream]
set -euo pipefail
bin=$(realpath "${1:-./eusn-stream}")
work=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

# machines FIRST LAST SEED BATCHES: batches of 60 samples of some machines. Each is healthy, worn or loose,
# which shows in how fast two noisy waves go.
machines() {
  awk -v first="$1" -v last="$2" -v seed="$3" -v batches="$4" 'BEGIN {
    srand(seed); split("healthy worn loose", class, " "); split("0.50 0.62 0.41", speed, " ")
    print "stream,time,end,x,y,label"
    for (m = first; m <= last; m++) for (b = 0; b < batches; b++) {
      c = (m + b) % 3 + 1; phase = 6 * rand()
      for (i = 0; i < 60; i++) {
        a = speed[c] * i + phase
        printf "machine-%d,%.0f000000,%s,%.4f,%.4f,%s\n", m, 1700000000000 + seed * 1000000 + b * 60 + i, # ns, by ms
          i == 59 ? "true" : "false", sin(a) + 0.7 * (rand() + rand() - 1), cos(a) + 0.7 * (rand() + rand() - 1), class[c]
      }
    }
  }'
}
say() { echo; echo "== $*"; }

say "a first model, of one machine and six batches"
machines 1 1 1 6 >few.csv
"$bin" import few.csv --quiet >/dev/null
"$bin" train few.parquet --members 4 --units 25 --output first.safetensors --quiet --progress none >/dev/null

say "the stage runs; ten machines send 30 batches each"
port=$((20000 + RANDOM % 20000))
url=nats://127.0.0.1:$port
"$bin" run --model first.safetensors --dir data --port $port --partitions 4 --quiet 2>stage.log & stage=$!
for _ in $(seq 100); do (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break; sleep 0.1; done
# predicted NAME: what the stage says of the archive NAME, to NAME.jsonl
predicted() {
  "$bin" tail --json --nats-url "$url" >"$1.jsonl" 2>tail.log & tail=$!
  sleep 1
  "$bin" replay "$1.parquet" --nats-url "$url" --progress none --quiet >/dev/null
  for _ in $(seq 300); do [ "$(wc -l <"$1.jsonl")" -ge 300 ] && break; sleep 0.1; done
  kill $tail; wait $tail 2>/dev/null || true
  [ "$(wc -l <"$1.jsonl")" -eq 300 ] || { echo "$(wc -l <"$1.jsonl") of 300 predictions came"; tail -3 stage.log; exit 1; }
}
# right NAME: how many of its predictions are right, each machine's in order
right() {
  awk -F, 'NR > 1 && $3 == "true" { print $1, $6 }' "$1.csv" | sort -s -k1,1 >"$1.true"
  sed -E 's/.*"stream":"([^"]*)".*"class":"([^"]*)".*/\1 \2/' "$1.jsonl" | sort -s -k1,1 >"$1.said"
  paste -d' ' "$1.true" "$1.said" | awk '$1 == $3 && $2 == $4' | wc -l
}
for day in monday:2 tuesday:3 wednesday:4; do
  machines 1 10 "${day#*:}" 30 >"${day%:*}.csv"
  "$bin" import "${day%:*}.csv" --quiet >/dev/null
done
predicted monday
echo "the first model: $(right monday) of 300 right"

say "record what came, and label 30 % of it"
"$bin" record --model first.safetensors --nats-url "$url" --until now --output recording --quiet
awk -F, 'NR > 1 && $3 == "true" && n++ % 10 < 3 { last = substr($2, 1, 13); printf "%s %.0f000000 %.0f000000 %s\n", $1, last - 59, last + 1, $6 }' monday.csv >labels.txt
while read -r stream from to class; do
  "$bin" labels add --nats-url "$url" --stream "$stream" --since "$from" --until "$to" --class "$class" --who anna --quiet
done <labels.txt
echo "$(wc -l <labels.txt) labels"

say "learn, publish, promote, while the stage runs"
"$bin" learn --model first.safetensors --nats-url "$url" --store learned --output second.safetensors --progress none --quiet >learn.txt
"$bin" evaluate tuesday.parquet --model second.safetensors --quiet --progress none >tuesday.txt
head -1 tuesday.txt
second=$("$bin" model publish second.safetensors --nats-url "$url" --note "labels of Monday" --quiet)
"$bin" model promote "$second" --nats-url "$url" --quiet
predicted tuesday
echo "the second model: $(right tuesday) of 300 right; $(grep -c "\"readout\":\"$second\"" tuesday.jsonl) say that it answered"

say "roll back"
"$bin" model rollback --nats-url "$url" --quiet
predicted wednesday
echo "the first model: $(right wednesday) of 300 right; $(grep -c "\"readout\":\"$second\"" wednesday.jsonl || true) say that the second answered"
"$bin" model list --nats-url "$url"
kill $stage; wait $stage
