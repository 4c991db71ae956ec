package main

import "strings"

// scripts are the install and remove scripts of the packages, which notify systemd of the
// units. Installation enables and starts no service; an upgrade restarts running
// services, which continue; removal stops them. The data in /var/lib and the
// administrator's files in /etc remain, also after a purge of the deb, except for the
// configuration.
func scripts(units []string) (deb, rpm map[string]string) {
	with := strings.NewReplacer("UNITS", strings.Join(units, " "))
	deb = map[string]string{
		"postinst": `#!/bin/sh
set -e
if [ "$1" = configure ] || [ "$1" = abort-upgrade ] || [ "$1" = abort-remove ]; then
	for unit in UNITS; do
		deb-systemd-helper update-state "$unit" >/dev/null || true
	done
	if [ -d /run/systemd/system ]; then
		systemctl --system daemon-reload >/dev/null || true
		if [ -n "$2" ]; then
			deb-systemd-invoke try-restart UNITS >/dev/null || true
		fi
	fi
fi
`,
		"prerm": `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	deb-systemd-invoke stop UNITS >/dev/null || true
fi
`,
		"postrm": `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ] && command -v deb-systemd-helper >/dev/null; then
	deb-systemd-helper purge UNITS >/dev/null || true
fi
`,
	}
	rpm = map[string]string{
		"post": `if [ -d /run/systemd/system ]; then
	systemctl daemon-reload >/dev/null 2>&1 || :
fi
`,
		"preun": `if [ "$1" -eq 0 ] && [ -x /usr/bin/systemctl ]; then
	systemctl --no-reload disable --now UNITS >/dev/null 2>&1 || :
fi
`,
		"postun": `if [ -d /run/systemd/system ]; then
	systemctl daemon-reload >/dev/null 2>&1 || :
	if [ "$1" -ge 1 ]; then
		systemctl try-restart UNITS >/dev/null 2>&1 || :
	fi
fi
`,
	}
	for _, set := range []map[string]string{deb, rpm} {
		for name, text := range set {
			set[name] = with.Replace(text)
		}
	}
	return deb, rpm
}

// overrides are the reasons for accepted findings of lintian.
const overrides = `# A Go program without cgo: it needs no library of the system, nor in the image.
eusn-stream: statically-linked-binary [usr/bin/eusn-stream]
`

// copyright is in Debian's machine-readable form.
const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: eusn-stream
Upstream-Contact: ` + maintainer + `
Source: ` + homepage + `
Comment: The program contains libraries of others. Their licenses and notices are in
 /usr/share/doc/eusn-stream/licenses.txt.gz.

Files: *
Copyright: 2026 the eusn-stream authors
License: Apache-2.0
 On Debian systems, the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
`
