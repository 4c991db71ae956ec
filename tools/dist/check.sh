#!/usr/bin/env bash
# Holds the files of a release to what is promised of them, as root on Debian:
#
#   tools/dist/check.sh FOLDER
#
# It installs the deb into a bare Debian, the rpm into an empty folder, and unpacks the
# image, and lets the program run in each (linux/amd64). Packages of Debian that it
# needs: lintian mmdebstrap rpm skopeo systemd systemd-container man-db.
set -euo pipefail
at=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
for program in lintian mmdebstrap rpm skopeo systemd-analyze systemd-nspawn man; do
  command -v $program >/dev/null || { echo "$program is not here: apt-get install lintian mmdebstrap rpm skopeo systemd systemd-container man-db"; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "roots can be made and entered by root alone"; exit 1; }
work=$(mktemp -d)
trap 'umount -q "$work/image" 2>/dev/null || true; rm -rf "$work"' EXIT
chmod 755 "$work"
say() { printf '== %s\n' "$*"; }
fail() { echo "failed: $*"; exit 1; }
deb=$(ls "$at"/*_amd64.deb) rpm=$(ls "$at"/*.x86_64.rpm) image=$(ls "$at"/*-oci.tar)
ends='predictions equal the offline evaluation'

say "checksums"
(cd "$at" && sha256sum --quiet --strict -c SHA256SUMS)
for f in "$at"/*; do case ${f##*/} in SHA256SUMS | SHA256SUMS.minisig) ;; *) grep -qF "  ${f##*/}" "$at/SHA256SUMS" || fail "$f has no checksum" ;; esac; done

say "bills of materials, against the schema of CycloneDX"
schemas=$(go mod download -json github.com/CycloneDX/cyclonedx-go@v0.9.3 | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')/schema
go run -trimpath ./tools/dist/schemacheck "$schemas/bom-1.6.schema.json" "$at"/*.cdx.json

say "lintian"
for f in "$at"/*.deb; do
  lintian --allow-root --fail-on error,warning "$f"
done

say "the deb in a bare Debian"
mmdebstrap --quiet --variant=essential --include=systemd bookworm "$work/debian"
cp "$deb" "$work/debian/package.deb"
in_debian() { chroot "$work/debian" "$@"; }
in_debian dpkg -i /package.deb >"$work/log" 2>&1 || { cat "$work/log"; fail "dpkg -i"; }
[ "$(in_debian eusn-stream version --json | sed -n 's/.*"version": "\([^"]*\)".*/\1/p' | sed 's/-/~/')" = "$(in_debian dpkg-query -W -f '${Version}' eusn-stream)" ] || fail "the program and its package have other versions"
# The released program has no symbols, so this is what a scanner of its bill of
# materials says; whether the code reaches it, make check finds out.
make --no-print-directory vuln VULN="-mode=binary $work/debian/usr/bin/eusn-stream" || say "modules of the program have known vulnerabilities, above"
[ -z "$(in_debian dpkg --verify eusn-stream)" ] || fail "installed files differ from the package's"
[ -z "$(find "$work/debian/etc/systemd/system" -name 'eusn-stream*')" ] || fail "a unit is enabled"
for unit in "$work"/debian/usr/lib/systemd/system/eusn-stream*.service; do
  out=$(systemd-analyze --root="$work/debian" --man=no verify "${unit##*/}" 2>&1 | grep eusn-stream || true)
  [ -z "$out" ] || fail "systemd-analyze verify: $out"
  # What each command of a unit reads is there but for the model, which the administrator brings.
  sed -n 's/^ExecStart=[^ ]* .*-c \([^ ]*\).*/\1/p' "$unit" | while read -r config; do
    in_debian eusn-stream config check "$config" >"$work/log" 2>&1 || { cat "$work/log"; fail "$config"; }
  done
done
in_debian sh -c "cd /tmp && eusn-stream demo --progress none" | grep "$ends"
code=0; in_debian eusn-stream run --engine gpu >"$work/log" 2>&1 || code=$?
{ [ $code = 4 ] && grep -q 'this build has no GPU support' "$work/log"; } || { cat "$work/log"; fail "run --engine gpu of a program without cgo ended with $code, want 4 and why"; }
cp "$work/debian/tmp/demo-data/machine.safetensors" "$work/debian/etc/eusn-stream/model.safetensors"
cp "$work/debian/tmp/demo-data/machine.parquet" "$work/debian/etc/eusn-stream/"
in_debian bash -c 'set -e; . /usr/share/bash-completion/completions/eusn-stream; complete -p eusn-stream' >/dev/null

cp -a "$work/debian" "$work/booted" # for below
rm "$work/debian/etc/eusn-stream/model.safetensors" "$work/debian/etc/eusn-stream/machine.parquet"

say "an upgrade keeps what the administrator wrote, a purge leaves nothing of the package"
echo "# mine" >>"$work/debian/etc/eusn-stream/stage.yaml"
in_debian dpkg -i /package.deb >/dev/null 2>&1
tail -1 "$work/debian/etc/eusn-stream/stage.yaml" | grep -qx '# mine' || fail "an upgrade replaced stage.yaml"
in_debian dpkg --purge eusn-stream >"$work/log" 2>&1 || { cat "$work/log"; fail "dpkg --purge"; }
left=$(find "$work/debian" -xdev -path "$work/debian/tmp" -prune -o -path "$work/debian/var/log" -prune -o -name '*eusn*' -print)
[ -z "$left" ] || fail "left behind: $left"

say "the services under systemd, in a Debian that is booted: what they do, what their sandbox denies, an upgrade under them"
tools/dist/booted.sh "$work/booted" "$deb"

say "manual pages"
dpkg-deb -x "$deb" "$work/unpacked"
for page in "$work"/unpacked/usr/share/man/man1/*.gz; do
  out=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
  [ -z "$out" ] || fail "$page: $out"
done

say "the rpm in an empty folder"
rpm -K --nosignature "$rpm" >/dev/null
mkdir "$work/rpm"
rpm --root "$work/rpm" --noscripts -i "$rpm" 2>"$work/log" || { cat "$work/log"; fail "rpm -i"; }
rpm --root "$work/rpm" -V eusn-stream
cmp "$work/rpm/usr/bin/eusn-stream" "$work/unpacked/usr/bin/eusn-stream"
rpm -qp --scripts "$rpm" | sed -n '/^[a-z]*install scriptlet/d; p' | sh -n

say "the image: read by skopeo; its root file system, read only, as its user"
skopeo copy --quiet --all "oci-archive:$image" "dir:$work/skopeo"
mkdir "$work/layout" "$work/image"
tar -xf "$image" -C "$work/layout"
python3 - "$work/layout" >"$work/layer" <<'PYTHON'
import hashlib, json, sys, gzip
root = sys.argv[1]
def blob(d):
    data = open(f"{root}/blobs/{d['digest'].replace(':', '/')}", "rb").read()
    assert len(data) == d["size"] and d["digest"] == "sha256:" + hashlib.sha256(data).hexdigest(), d
    return data
assert json.load(open(root + "/oci-layout"))["imageLayoutVersion"] == "1.0.0"
for top in json.load(open(root + "/index.json"))["manifests"]:
    for d in json.loads(blob(top))["manifests"]:
        m = json.loads(blob(d))
        config = json.loads(blob(m["config"]))
        assert config["architecture"] == d["platform"]["architecture"]
        for layer, diff in zip(m["layers"], config["rootfs"]["diff_ids"], strict=True):
            assert diff == "sha256:" + hashlib.sha256(gzip.decompress(blob(layer))).hexdigest()
            if config["architecture"] == "amd64":
                print(layer["digest"].replace(":", "/"), config["config"]["User"], *config["config"]["Volumes"])
PYTHON
read -r layer user volume <"$work/layer"
tar -xzf "$work/layout/blobs/$layer" -C "$work/image" --same-owner
mount --bind "$work/image" "$work/image"
mount -o remount,bind,ro "$work/image"
mount -t tmpfs -o "mode=750,uid=${user%:*},gid=${user#*:}" tmpfs "$work/image$volume"
trap 'umount "$work/image$volume"; umount "$work/image"; rm -rf "$work"' EXIT
[ "${user%:*}" != 0 ] || fail "the image runs as root"
chroot --userspec="$user" "$work/image" /usr/bin/eusn-stream demo --dir "$volume" --progress none | grep "$ends"
chroot --userspec="$user" "$work/image" /usr/bin/eusn-stream config init /etc/mine.yaml 2>/dev/null && fail "the root file system can be written"
say "all passed"
