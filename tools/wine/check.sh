#!/usr/bin/env bash
# Runs the program for Windows under Wine: the demo, and the stage as a service that is stopped,
# killed and started again. Minutes, by hand (Debian: wine64 clang-19 lld-19):
#
#   GOOS=windows CGO_ENABLED=0 go build -o eusn-stream.exe ./cmd/eusn-stream
#   tools/wine/check.sh eusn-stream.exe
#
# WINEPREFIX may name a folder of Wine that is there already.
set -euo pipefail
program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
export WINEPREFIX=${WINEPREFIX:-$work/prefix} WINEDEBUG=-all WINEARCH=win64 WINEDLLOVERRIDES="mscoree,mshtml="
keep=
trap '[ -z "$keep" ] || kill "$keep" 2>/dev/null || true; rm -rf "$work"' EXIT
fail() { echo "failed: $*"; exit 1; }
[ -d "$WINEPREFIX/drive_c/windows" ] || timeout 300 "$wine" wineboot --init >/dev/null 2>&1 || true # it waits for parts of 32 bits that are not there
clang-19 --target=x86_64-pc-windows-msvc -mrdrnd -O1 -fno-builtin -c "$here/prng.c" -o "$work/prng.o"
lld-link-19 /dll /noentry /nodefaultlib "/out:$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" /export:ProcessPrng "$work/prng.o"
at="$WINEPREFIX/drive_c/Program Files/eusn stream" # with a blank
data=$WINEPREFIX/drive_c/ProgramData/eusn-stream
mkdir -p "$at" "$data"
cp "$program" "$at/eusn-stream.exe"
cd "$at"
run() { timeout 120 "$wine" "$@"; }
"$wine" cmd /c "ping -n 900 127.0.0.1" >/dev/null 2>&1 & # Wine ends services when the last program has ended
keep=$!

run eusn-stream.exe version
rm -rf demo-data
run eusn-stream.exe demo --progress none 2>&1 | grep -E '^([0-9]+) of \1 predictions equal the offline evaluation'
cp demo-data/machine.safetensors "$data/model.safetensors"
printf 'model: C:\\ProgramData\\eusn-stream\\model.safetensors\nserver:\n  port: 4777\n' >"$data/stage.yaml"
run eusn-stream.exe service uninstall eusn-stream >/dev/null 2>&1 || true
rm -rf "$data/eusn-stream"
run eusn-stream.exe service install --account LocalSystem -- run -c 'C:\ProgramData\eusn-stream\stage.yaml' # Wine has no virtual accounts

is() { # STATE
	for _ in $(seq 60); do
		case $(run eusn-stream.exe service status eusn-stream 2>/dev/null || true) in "eusn-stream is $1"*) return ;; esac
		sleep 1
	done
	fail "the service is not $1"
}
run sc start eusn-stream >/dev/null
is running
run eusn-stream.exe replay demo-data/machine.parquet --nats-url nats://127.0.0.1:4777 --progress none 2>/dev/null
run eusn-stream.exe status --nats-url nats://127.0.0.1:4777 | grep 'up to date'
run sc stop eusn-stream >/dev/null
is stopped
grep -q 'samples processed, 300 predictions committed' "$data/eusn-stream/eusn-stream.log" || fail "the log does not tell of 300 predictions"
grep -q 'msg="service stopped" exit_code=0' "$data/eusn-stream/eusn-stream.log" || fail "it did not end orderly"
run sc start eusn-stream >/dev/null
is running
run taskkill /f /im eusn-stream.exe >/dev/null # its locks must go with it
sleep 3
run sc start eusn-stream >/dev/null
is running
run eusn-stream.exe status --nats-url nats://127.0.0.1:4777 | grep 'up to date'
run eusn-stream.exe service uninstall eusn-stream
run eusn-stream.exe service status eusn-stream >/dev/null 2>&1 && fail "the service is still there"
echo "all passed"
