package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/tools/dist/man"
	"github.com/eusn-stream/eusn-stream/tools/dist/pack"
)

const (
	maintainer  = "eusn-stream maintainers <eusn-stream@users.noreply.github.com>"
	homepage    = "https://github.com/eusn-stream/eusn-stream"
	summary     = "classify streams of sensor samples with Euler State Networks"
	description = "eusn-stream trains a model with recordings of machines, on a CPU in seconds to minutes. The program then reads live samples from a NATS server and predicts the state of each machine, for example every second, with a probability and with flags for faulty sensors.\n" +
		"A NATS server is built in. Samples can arrive over MQTT, HTTP and field buses. Predictions are made exactly once, also after a kill. This build does not support GPUs."
)

// files are the files of a release for a platform, before packing.
type files struct {
	build       *built
	version     string // 1.2.0, in the names of files
	time        time.Time
	materials   []byte
	licenses    []byte
	changelog   []byte
	upgrading   []byte
	license     []byte
	man         map[string][]byte
	completions map[string][]byte // by shell
	configs     map[string][]byte // by path below configs
	docs        map[string][]byte // by name in docs: documents named in messages of the program
}

func (s *source) files(b *built) (*files, error) {
	f := &files{build: b, version: b.version, time: s.time}
	var err error
	if f.materials, f.licenses, err = b.bill(s); err != nil {
		return nil, err
	}
	if f.changelog, err = os.ReadFile(filepath.Join(s.dir, "CHANGELOG.md")); err != nil {
		return nil, err
	}
	if f.upgrading, err = os.ReadFile(filepath.Join(s.dir, "UPGRADING.md")); err != nil {
		return nil, err
	}
	if f.license, err = os.ReadFile(filepath.Join(s.dir, "LICENSE")); err != nil {
		return nil, err
	}
	if f.completions, err = completions(); err != nil {
		return nil, err
	}
	f.man = man.Pages(root.Command(), f.version, s.time)
	f.configs = map[string][]byte{}
	err = fs.WalkDir(os.DirFS(filepath.Join(s.dir, "configs")), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "prometheus/faults/") || strings.HasSuffix(name, "_test.yaml") { // files for tests
			return err
		}
		f.configs[name], err = os.ReadFile(filepath.Join(s.dir, "configs", name))
		return err
	})
	if err != nil {
		return nil, err
	}
	f.docs, err = s.docs()
	return f, err
}

// docs returns the documents in docs by their paths, and the pictures of plants.
func (s *source) docs() (map[string][]byte, error) {
	all, docs := map[string][]byte{}, os.DirFS(filepath.Join(s.dir, "docs"))
	for _, pattern := range []string{"*.md", "plants/*.md", "plants/*.svg"} {
		names, err := fs.Glob(docs, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if all[name], err = fs.ReadFile(docs, name); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// completions returns the scripts for shells to complete the program's commands.
func completions() (map[string][]byte, error) {
	var bash, zsh, fish, powershell bytes.Buffer
	c := root.Command()
	for _, err := range []error{c.GenBashCompletionV2(&bash, true), c.GenZshCompletion(&zsh), c.GenFishCompletion(&fish, true), c.GenPowerShellCompletionWithDesc(&powershell)} {
		if err != nil {
			return nil, err
		}
	}
	return map[string][]byte{"bash": bash.Bytes(), "zsh": zsh.Bytes(), "fish": fish.Bytes(), "powershell": powershell.Bytes()}, nil
}

// packages returns all files of a release for a platform.
func (f *files) packages() ([]pack.File, error) {
	name := fmt.Sprintf("eusn-stream-%s-%s-%s", f.version, f.build.os, f.archName())
	made := []pack.File{{Path: name + ".cdx.json", Data: f.materials}}
	switch f.build.os {
	case "windows":
		data, err := pack.Zip(name+"/", f.archive(), f.time)
		if err != nil {
			return nil, err
		}
		made = append(made, pack.File{Path: name + ".zip", Data: data})
	default:
		data, err := pack.Tar(name+"/", f.archive(), f.time)
		if err != nil {
			return nil, err
		}
		made = append(made, pack.File{Path: name + ".tar.gz", Data: data})
	}
	if f.build.os != "linux" {
		return made, nil
	}
	p := f.installed(true)
	deb, err := p.Deb()
	if err != nil {
		return nil, err
	}
	made = append(made, pack.File{Path: p.DebName(), Data: deb})
	p = f.installed(false)
	rpm, err := p.RPM()
	return append(made, pack.File{Path: p.RPMName(), Data: rpm}), err
}

func (f *files) archName() string {
	if f.build.arch == "arm" {
		return "armv7"
	}
	return f.build.arch
}

// archive returns the files of the portable archive.
func (f *files) archive() []pack.File {
	program := "eusn-stream"
	if f.build.os == "windows" {
		program += ".exe"
	}
	all := []pack.File{
		{Path: program, Mode: 0o755, Data: f.build.program},
		{Path: "LICENSE", Mode: 0o644, Data: f.license},
		{Path: "CHANGELOG.md", Mode: 0o644, Data: f.changelog},
		{Path: "UPGRADING.md", Mode: 0o644, Data: f.upgrading},
		{Path: "licenses.txt", Mode: 0o644, Data: f.licenses},
		{Path: "materials.cdx.json", Mode: 0o644, Data: f.materials},
		{Path: "config.schema.json", Mode: 0o644, Data: config.Schema},
		{Path: "configs/all-keys.yaml", Mode: 0o644, Data: config.DefaultYAML},
		{Path: "completions/eusn-stream.bash", Mode: 0o644, Data: f.completions["bash"]},
		{Path: "completions/_eusn-stream", Mode: 0o644, Data: f.completions["zsh"]},
		{Path: "completions/eusn-stream.fish", Mode: 0o644, Data: f.completions["fish"]},
		{Path: "completions/eusn-stream.ps1", Mode: 0o644, Data: f.completions["powershell"]},
	}
	for name, data := range f.configs {
		all = append(all, pack.File{Path: "configs/" + name, Mode: 0o644, Data: data})
	}
	for name, data := range f.docs {
		all = append(all, pack.File{Path: "docs/" + name, Mode: 0o644, Data: data})
	}
	for name, data := range f.man {
		all = append(all, pack.File{Path: "man/man1/" + name, Mode: 0o644, Data: data})
	}
	return all
}

// installed returns the package with the files that a deb or an rpm installs.
func (f *files) installed(debian bool) *pack.Package {
	zsh := "usr/share/zsh/site-functions"
	if debian {
		zsh = "usr/share/zsh/vendor-completions"
	}
	version := systemVersion(f.version)
	doc := "usr/share/doc/eusn-stream/"
	p := &pack.Package{
		Name: "eusn-stream", Version: version, Arch: f.build.arch, Maintainer: maintainer, License: "Apache-2.0", Homepage: homepage,
		Summary: summary, Description: description, Time: f.time,
		Files: []pack.File{
			{Path: "usr/bin/eusn-stream", Mode: 0o755, Data: f.build.program},
			{Path: "usr/share/bash-completion/completions/eusn-stream", Mode: 0o644, Data: f.completions["bash"]},
			{Path: zsh + "/_eusn-stream", Mode: 0o644, Data: f.completions["zsh"]},
			{Path: "usr/share/fish/vendor_completions.d/eusn-stream.fish", Mode: 0o644, Data: f.completions["fish"]},
			{Path: "usr/share/eusn-stream/config.schema.json", Mode: 0o644, Data: config.Schema},
			{Path: doc + "copyright", Mode: 0o644, Data: []byte(copyright)},
			{Path: doc + "changelog.gz", Mode: 0o644, Data: gzipped(f.debChangelog(version))},
			{Path: doc + "CHANGELOG.md.gz", Mode: 0o644, Data: gzipped(f.changelog)},
			{Path: doc + "UPGRADING.md.gz", Mode: 0o644, Data: gzipped(f.upgrading)},
			{Path: doc + "licenses.txt.gz", Mode: 0o644, Data: gzipped(f.licenses)},
			{Path: doc + "materials.cdx.json.gz", Mode: 0o644, Data: gzipped(f.materials)},
			{Path: doc + "examples/all-keys.yaml", Mode: 0o644, Data: config.DefaultYAML},
		},
	}
	for name, data := range f.docs {
		p.Files = append(p.Files, pack.File{Path: doc + "docs/" + name + ".gz", Mode: 0o644, Data: gzipped(data)})
	}
	for name, data := range f.man {
		p.Files = append(p.Files, pack.File{Path: "usr/share/man/man1/" + name + ".gz", Mode: 0o644, Data: gzipped(data)})
	}
	var units []string
	for _, name := range slices.Sorted(maps.Keys(f.configs)) {
		data := f.configs[name]
		switch dir, base := path.Split(name); dir {
		case "systemd/":
			units = append(units, base)
			p.Files = append(p.Files, pack.File{Path: "usr/lib/systemd/system/" + base, Mode: 0o644, Data: data})
		case "package/":
			p.Files = append(p.Files, pack.File{Path: "etc/eusn-stream/" + base, Mode: 0o644, Data: data, Config: true})
		default:
			p.Files = append(p.Files, pack.File{Path: doc + "examples/" + name, Mode: 0o644, Data: data})
		}
	}
	if debian {
		p.Files = append(p.Files, pack.File{Path: "usr/share/lintian/overrides/eusn-stream", Mode: 0o644, Data: []byte(overrides)})
	}
	p.DebScripts, p.RPMScripts = scripts(units)
	return p
}

// systemVersion returns a version in the order of Debian and rpm: a pre-release sorts
// before its release, and commits after a tag sort after the tag.
//
//	1.2.0 -> 1.2.0   1.2.0-rc.1 -> 1.2.0~rc.1
//	1.2.0+20261124013340.b0bf30eaaad9 -> 1.2.0+20261124013340.b0bf30eaaad9
func systemVersion(version string) string {
	release, before, is := strings.Cut(version, "-")
	if !is {
		return release
	}
	return release + "~" + strings.ReplaceAll(before, "-", ".")
}

func (f *files) debChangelog(version string) []byte {
	return fmt.Appendf(nil, "eusn-stream (%s) unstable; urgency=medium\n\n  * CHANGELOG.md.gz in this folder lists the changes.\n\n -- %s  %s\n", version, maintainer, f.time.Format(time.RFC1123Z))
}

// gzipped compresses data as Debian requires for documents: best compression, no name, no
// time.
func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	w.Write(data)
	w.Close()
	return b.Bytes()
}

// image returns the container image: the program, a user, and two folders.
func (f *files) image() pack.Image {
	const user = 65532
	return pack.Image{
		Arch: f.build.arch, Time: f.time, User: fmt.Sprintf("%d:%d", user, user),
		Files: []pack.File{
			{Path: "usr/bin/eusn-stream", Mode: 0o755, Data: f.build.program},
			{Path: "etc/passwd", Mode: 0o644, Data: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\neusn-stream:x:%d:%d:eusn-stream:/var/lib/eusn-stream:/sbin/nologin\n", user, user)},
			{Path: "etc/group", Mode: 0o644, Data: fmt.Appendf(nil, "root:x:0:\neusn-stream:x:%d:\n", user)},
			{Path: "etc/eusn-stream/stage.yaml", Mode: 0o644, Data: f.configs["package/stage.yaml"]},
			{Path: "var/lib/eusn-stream", Mode: fs.ModeDir | 0o750, Owner: user},
			{Path: "usr/share/doc/eusn-stream/LICENSE", Mode: 0o644, Data: f.license},
			{Path: "usr/share/doc/eusn-stream/licenses.txt", Mode: 0o644, Data: f.licenses},
			{Path: "usr/share/doc/eusn-stream/materials.cdx.json", Mode: 0o644, Data: f.materials},
		},
		Entrypoint: []string{"/usr/bin/eusn-stream"},
		Cmd:        []string{"run", "-c", "/etc/eusn-stream/stage.yaml", "--dir", "/var/lib/eusn-stream/nats"},
		Env:        []string{"PATH=/usr/bin", "HOME=/var/lib/eusn-stream", "TMPDIR=/var/lib/eusn-stream"},
		WorkingDir: "/var/lib/eusn-stream",
		Volumes:    []string{"/var/lib/eusn-stream"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "eusn-stream",
			"org.opencontainers.image.description": summary,
			"org.opencontainers.image.version":     f.version,
			"org.opencontainers.image.revision":    f.build.commit,
			"org.opencontainers.image.created":     f.time.Format(time.RFC3339),
			"org.opencontainers.image.source":      homepage,
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
}
