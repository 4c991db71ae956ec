package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/tools/dist/bom"
	"github.com/eusn-stream/eusn-stream/tools/dist/pack"
)

// example is a release of a version with this test as its program.
func example(t *testing.T, version string) *files {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	src := &source{dir: "../..", time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), goroot: t.TempDir()}
	if err := os.WriteFile(filepath.Join(src.goroot, "LICENSE"), []byte("as you like\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := &built{os: "linux", arch: "amd64", program: program, version: version, commit: "0123456"}
	f := &files{build: b}
	if f.materials, err = bom.Write(program, b.version, src.time); err != nil {
		t.Fatal(err)
	}
	src.modules = map[string]string{}
	dir := src.goroot
	for _, c := range components(t, f.materials) {
		src.modules[c.Name+"@"+c.Version] = dir
	}
	if f, err = src.files(b); err != nil {
		t.Fatal(err)
	}
	return f
}

type component struct{ Name, Version, PURL string }

func components(t *testing.T, materials []byte) []component {
	t.Helper()
	var d struct {
		BOMFormat, SpecVersion, SerialNumber string
		Components                           []component
	}
	if err := json.Unmarshal(materials, &d); err != nil {
		t.Fatal(err)
	}
	if d.BOMFormat != "CycloneDX" || d.SpecVersion != "1.6" || len(d.SerialNumber) != len("urn:uuid:")+36 {
		t.Errorf("the bill of materials begins with %q %q %q", d.BOMFormat, d.SpecVersion, d.SerialNumber)
	}
	return d.Components
}

// The bill of materials names Go and the modules in the program, and the license of each
// is included.
func TestMaterials(t *testing.T) {
	f := example(t, "1.2.0-rc.1")
	all := components(t, f.materials)
	for _, want := range []string{"stdlib", "github.com/spf13/cobra", "github.com/nats-io/nats-server/v2"} {
		i := slices.IndexFunc(all, func(c component) bool { return c.Name == want })
		if i < 0 {
			t.Errorf("%s is not among %d components", want, len(all))
			continue
		}
		if c := all[i]; !strings.HasPrefix(c.PURL, "pkg:golang/"+want+"@") || c.Version == "" {
			t.Errorf("%+v", c)
		}
	}
	if n := bytes.Count(f.licenses, []byte("as you like")); n != len(all) {
		t.Errorf("%d licenses of %d parts", n, len(all))
	}
	if _, err := bom.Licenses(f.build.program, t.TempDir(), func(string, string) (string, error) { return "", errors.New("lost") }); err == nil {
		t.Error("a part without a license was taken")
	}
	if _, err := bom.Write([]byte("no program"), "1.2.0", f.time); err == nil {
		t.Error("a bill of materials of no program")
	}
}

// The packages have the promised content.
func TestContents(t *testing.T) {
	f := example(t, "1.2.0-rc.1")
	for _, debian := range []bool{true, false} {
		p := f.installed(debian)
		find := func(path string) *pack.File {
			i := slices.IndexFunc(p.Files, func(file pack.File) bool { return file.Path == path })
			if i < 0 {
				return nil
			}
			return &p.Files[i]
		}
		for _, path := range []string{
			"usr/bin/eusn-stream", "usr/lib/systemd/system/eusn-stream.service", "usr/lib/systemd/system/eusn-stream-gateway.service", "usr/lib/systemd/system/eusn-stream-alarms.service", "usr/lib/systemd/system/eusn-stream-edge.service",
			"etc/eusn-stream/stage.yaml", "etc/eusn-stream/gateway.yaml", "etc/eusn-stream/alarms.yaml", "etc/eusn-stream/edge.yaml", "usr/share/man/man1/eusn-stream.1.gz",
			"usr/share/man/man1/eusn-stream-offline-retrain.1.gz", "usr/share/eusn-stream/config.schema.json",
			"usr/share/doc/eusn-stream/copyright", "usr/share/doc/eusn-stream/changelog.gz",
		} {
			if file := find(path); file == nil {
				t.Errorf("debian %v: %s is not there", debian, path)
			} else if file.Config != strings.HasPrefix(path, "etc/") {
				t.Errorf("%s: Config is %v", path, file.Config)
			}
		}
		for _, file := range p.Files {
			if len(file.Data) == 0 {
				t.Errorf("%s is empty", file.Path)
			}
			// The configuration of a unit's command is installed.
			if strings.HasSuffix(file.Path, ".service") {
				_, config, _ := strings.Cut(string(file.Data), " -c /")
				if config = strings.Fields(config)[0]; find(config) == nil {
					t.Errorf("%s reads /%s, which no package brings", file.Path, config)
				}
				if !strings.Contains(p.DebScripts["prerm"], filepath.Base(file.Path)) {
					t.Errorf("removing the deb does not stop %s", file.Path)
				}
			}
		}
	}
	f.build.program = []byte("small") // the real program takes long to compress
	made, err := f.packages()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range made {
		names = append(names, m.Path)
	}
	want := []string{"eusn-stream-1.2.0-rc.1-linux-amd64.cdx.json", "eusn-stream-1.2.0-rc.1-linux-amd64.tar.gz", "eusn-stream_1.2.0~rc.1_amd64.deb", "eusn-stream-1.2.0~rc.1-1.x86_64.rpm"}
	if !slices.Equal(names, want) {
		t.Errorf("made %v, want %v", names, want)
	}
}

// The program accepts the configuration files of the packages.
func TestPackagedConfigurations(t *testing.T) {
	files, err := filepath.Glob("../../configs/package/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		clitest.Must(t, "config", "check", file)
	}
}

// A document that docs/README.md links, or that is named in a message, is in the archive and in the packages, and so are
// the pictures of plants.
func TestNamedDocuments(t *testing.T) {
	f := example(t, "1.2.0-rc.1")
	there := map[string]bool{}
	for _, file := range f.archive() {
		there[file.Path] = true
	}
	packed := map[string]bool{}
	for _, file := range f.installed(true).Files {
		packed[strings.TrimSuffix(strings.TrimPrefix(file.Path, "usr/share/doc/eusn-stream/"), ".gz")] = true
	}
	links := regexp.MustCompile(`\]\(([a-z/-]+\.(?:md|svg))[#)]`)
	for _, page := range []string{"README.md", "plants/pump-bed.md"} {
		for _, m := range links.FindAllSubmatch(f.docs[page], -1) {
			if doc := path.Join("docs", path.Dir(page), string(m[1])); !there[doc] || !packed[doc] {
				t.Errorf("docs/%s links %s, which no package has", page, doc)
			}
		}
	}
	sources, err := exec.Command("git", "-C", "../..", "ls-files", "*.go").Output()
	if err != nil {
		t.Skip("NOT CHECKED: ", err)
	}
	named, seen := regexp.MustCompile(`docs/[A-Za-z0-9_./-]+\.[a-z]+`), 0
	for name := range strings.FieldsSeq(string(sources)) {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "tools/") || strings.HasPrefix(name, "integration/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		var s scanner.Scanner
		files := token.NewFileSet()
		s.Init(files.AddFile(name, -1, len(text)), text, nil, 0)
		for _, kind, literal := s.Scan(); kind != token.EOF; _, kind, literal = s.Scan() {
			if kind != token.STRING {
				continue
			}
			for _, doc := range named.FindAllString(literal, -1) {
				if seen++; !there[doc] || !packed[doc] {
					t.Errorf("%s names %s, which no package has", name, doc)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d documents are named, want all that messages do", seen)
	}
}

// Debian and rpm sort versions in the order of the releases.
func TestSystemVersion(t *testing.T) {
	order := [][2]string{
		{"0.1.0-rc.1", "0.1.0~rc.1"},
		{"0.1.0-rc.1+20261124013340.b0bf30eaaad9", "0.1.0~rc.1+20261124013340.b0bf30eaaad9"},
		{"0.1.0", "0.1.0"},
		{"0.1.0+20261124013340.b0bf30eaaad9", "0.1.0+20261124013340.b0bf30eaaad9"},
		{"0.1.0+20261201000000.0bf30eaaad9b", "0.1.0+20261201000000.0bf30eaaad9b"},
		{"0.1.1-rc.1", "0.1.1~rc.1"},
		{"0.1.1", "0.1.1"},
	}
	for i, v := range order {
		if got := systemVersion(v[0]); got != v[1] {
			t.Errorf("%s is %s, want %s", v[0], got, v[1])
		}
		if i == 0 {
			continue
		}
		if _, err := exec.LookPath("dpkg"); err != nil {
			parts.Absent(t, "dpkg", "%v: it is on Debian", err)
		}
		if err := exec.Command("dpkg", "--compare-versions", order[i-1][1], "lt", v[1]).Run(); err != nil {
			t.Errorf("dpkg does not put %s before %s", order[i-1][1], v[1])
		}
	}
}

// A folder with other files is not changed, and an earlier release is replaced.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "eusn-stream.txt")
	if err := os.WriteFile(mine, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := emptyFolder(dir); err == nil || !strings.Contains(err.Error(), "eusn-stream.txt") {
		t.Errorf("error %v, want one about the file", err)
	}
	if err := writeSums(dir); err != nil { // as if the file belonged to a release
		t.Fatal(err)
	}
	if err := emptyFolder(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := release(t.Context(), dir, []string{runtime.GOOS + "/z80"}); err == nil {
		t.Error("a platform that nobody has was taken")
	}
}
