#!/usr/bin/env bash
# Boots a Debian with systemd in a container (systemd-nspawn), starts the services of the
# package in it, and shows that they predict, what their sandbox denies, that an upgrade and a
# kill start them again, and so do a planted panic, exhausted memory and SIGABRT:
#
#   tools/dist/booted.sh ROOT DEB
#
# ROOT is the folder of a bare Debian with systemd in which DEB is installed; it has a model and
# an archive in /etc/eusn-stream. As root; Debian's package systemd-container.
set -euo pipefail
root=$1 deb=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dpkg-deb -R "$deb" "$work/older"
sed -i 's/^Version: .*/Version: 0.0.0~0/' "$work/older/DEBIAN/control"
dpkg-deb -Znone -b "$work/older" "$root/older.deb" >/dev/null
cp "$deb" "$root/package.deb"
top=$(cd "$here/../.." && pwd)
printf '{"Replace": {"%s": "%s"}}' "$top/cmd/eusn-stream/planted.go" "$here/booted/planted.go.txt" >"$work/overlay.json"
(cd "$top" && CGO_ENABLED=0 go build -trimpath -overlay "$work/overlay.json" -o "$root/planted" ./cmd/eusn-stream)
install -m 755 "$here/booted/probe.sh" "$here/booted/inside.sh" "$root/"
cat >"$root/etc/systemd/system/proof.service" <<'UNIT'
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/inside.sh >/proof 2>&1'
[Install]
WantedBy=multi-user.target
UNIT
systemctl --quiet --root="$root" set-default multi-user.target
systemctl --quiet --root="$root" enable proof.service
rm -f "$root/proof"
timeout 900 systemd-nspawn --quiet --boot --directory="$root" --register=no --keep-unit --private-network --link-journal=no </dev/null >"$work/boot" 2>&1 || true
cat "$root/proof" 2>/dev/null || { tail -50 "$work/boot"; echo "failed: systemd did not boot here"; exit 1; }
[ "$(tail -1 "$root/proof")" = proved ]
