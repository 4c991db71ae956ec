#!/usr/bin/env bash
# Three NATS servers of one cluster on this machine, each a process with the configuration that docs/durability.md
# recommends, for as long as a command runs. EUSN_BENCH_NATS holds their addresses.
#   docs/three-servers.sh always|default COMMAND...
# On three machines, leave out the ports and give the routes the machines' names.
set -euo pipefail
sync=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
go -C "$root" build -o "$work/nats-server" github.com/nats-io/nats-server/v2
base=$((20000 + RANDOM % 9000))
interval=$([ "$sync" = always ] && echo 'sync_interval: always' || echo '# sync_interval: 2m')
for i in 0 1 2; do
  cat >"$work/n$i.conf" <<CONF
server_name: n$i
listen: 127.0.0.1:$((base + i))
max_payload: 8MB
jetstream {
  store_dir: "$work/n$i"
  $interval
}
cluster {
  name: eusn
  listen: 127.0.0.1:$((base + 10 + i))
  routes: [nats://127.0.0.1:$((base + 10)), nats://127.0.0.1:$((base + 11)), nats://127.0.0.1:$((base + 12))]
}
CONF
  "$work/nats-server" -c "$work/n$i.conf" >"$work/n$i.log" 2>&1 &
  pids+=($!)
done
for _ in $(seq 200); do # until they have chosen a leader
  grep -q 'JetStream cluster new metadata leader' "$work"/n?.log && break
  sleep 0.1
done
EUSN_BENCH_NATS="nats://127.0.0.1:$base,nats://127.0.0.1:$((base + 1)),nats://127.0.0.1:$((base + 2))" "$@"
