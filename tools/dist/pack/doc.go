// Package pack writes files into packages: deb, rpm, tar.gz, zip, and an image of the
// Open Container Initiative, for any content.
//
// Equal contents give equal bytes: files are sorted, each has the time of the package,
// and no property of the machine is written.
//
// Formats: deb(5); "RPM v4 package format" of rpm.org; the image layout and image
// specifications 1.1 of opencontainers.org.
package pack

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"time"
)

// File is a file of a package.
type File struct {
	Path   string      // from the root, without a leading slash: usr/bin/cat
	Mode   fs.FileMode // permissions; fs.ModeDir for a directory, which has no Data
	Data   []byte
	Config bool // changed by the administrator: an upgrade keeps the changes
	Owner  int  // number of user and group: 0 is root
}

// Package is the metadata and the files of a deb and an rpm.
type Package struct {
	Name        string
	Version     string // a Debian version without revision: 1.2.0, 1.2.0~rc.1
	Arch        string // as Go names it: amd64, arm64, arm (ARMv7)
	Maintainer  string // name and address
	License     string // of SPDX
	Homepage    string
	Summary     string // a line
	Description string // paragraphs of one line each
	Time        time.Time
	Files       []File
	DebScripts  map[string]string // maintainer scripts by name: postinst, prerm, postrm
	RPMScripts  map[string]string // scriptlets by name: post, preun, postun
}

// sorted returns the files by path, with each missing parent directory.
func sorted(files []File) []File {
	have := map[string]bool{}
	for _, f := range files {
		have[f.Path] = true
	}
	all := slices.Clone(files)
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "." && !have[dir]; dir = path.Dir(dir) {
			have[dir] = true
			all = append(all, File{Path: dir, Mode: fs.ModeDir | 0o755})
		}
	}
	slices.SortFunc(all, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return all
}
