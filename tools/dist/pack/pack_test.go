package pack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	oci "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func example() *Package {
	return &Package{
		Name: "hello", Version: "1.2.0~rc.1", Arch: "amd64", Maintainer: "A B <a@example.org>", License: "Apache-2.0",
		Homepage: "https://example.org", Summary: "say hello", Description: "It says hello.\nAnd that twice, if it is asked to, " + strings.Repeat("again and ", 20) + "again.",
		Time: at,
		Files: []File{
			{Path: "usr/bin/hello", Mode: 0o755, Data: []byte("#!/bin/sh\necho hello\n")},
			{Path: "etc/hello/hello.yaml", Mode: 0o644, Data: []byte("a: 1\n"), Config: true},
			{Path: "usr/share/doc/hello/odd", Mode: 0o644, Data: []byte("odd")},
			{Path: "usr/share/doc/hello/empty", Mode: 0o644},
		},
		DebScripts: map[string]string{"postinst": "#!/bin/sh\nexit 0\n"},
		RPMScripts: map[string]string{"post": "exit 0\n"},
	}
}

// Packing is reproducible, for any order of files.
func TestSameBytes(t *testing.T) {
	p := example()
	again := example()
	slices.Reverse(again.Files)
	image := Image{Arch: "amd64", Files: p.Files, User: "1:1", Time: at, Labels: map[string]string{"a": "1", "b": "2", "c": "3"}, Volumes: []string{"/a", "/b"}}
	other := image
	other.Files = again.Files
	for name, make := range map[string]func(p *Package, i Image) ([]byte, error){
		"deb":   func(p *Package, _ Image) ([]byte, error) { return p.Deb() },
		"rpm":   func(p *Package, _ Image) ([]byte, error) { return p.RPM() },
		"tar":   func(p *Package, _ Image) ([]byte, error) { return Tar("hello/", p.Files, at) },
		"zip":   func(p *Package, _ Image) ([]byte, error) { return Zip("hello/", p.Files, at) },
		"image": func(_ *Package, i Image) ([]byte, error) { return Layout("1.2.0", []Image{i}) },
	} {
		one, err := make(p, image)
		if err != nil {
			t.Fatal(err)
		}
		two, err := make(again, other)
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s: other bytes the second time (%v)", name, err)
		}
	}
}

// entries returns the files of a tar archive, by name.
func entries(t *testing.T, packed []byte) map[string]*tar.Header {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*tar.Header{}
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = h
	}
}

func TestTar(t *testing.T) {
	data, err := Tar("./", example().Files, at)
	if err != nil {
		t.Fatal(err)
	}
	all := entries(t, data)
	want := []string{"./etc/", "./etc/hello/", "./etc/hello/hello.yaml", "./usr/", "./usr/bin/", "./usr/bin/hello", "./usr/share/", "./usr/share/doc/", "./usr/share/doc/hello/", "./usr/share/doc/hello/empty", "./usr/share/doc/hello/odd"}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if h := all["./usr/bin/hello"]; h.Mode != 0o755 || !h.ModTime.Equal(at) || h.Uid != 0 || h.Uname != "root" {
		t.Errorf("hello: %+v", h)
	}
}

func TestZip(t *testing.T) {
	data, err := Zip("hello/", example().Files, at)
	if err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(r, "hello/etc/hello/hello.yaml")
	if err != nil || string(text) != "a: 1\n" {
		t.Errorf("read %q, %v", text, err)
	}
}

// dpkg reads the deb, and installs it into a separate folder.
func TestDeb(t *testing.T) {
	p := example()
	data, err := p.Deb()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte("!<arch>\ndebian-binary   ")) {
		t.Errorf("begins with %q", data[:24])
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		parts.Absent(t, "dpkg", "%v: it is on Debian", err)
	}
	dir := t.TempDir()
	deb := filepath.Join(dir, p.DebName())
	if err := os.WriteFile(deb, data, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for field, want := range map[string]string{"Package": "hello", "Version": "1.2.0~rc.1", "Architecture": "amd64"} {
		if got := strings.TrimSpace(run("dpkg-deb", "--field", deb, field)); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	for _, line := range strings.Split(run("dpkg-deb", "--field", deb, "Description"), "\n") {
		if len(line) > 80 {
			t.Errorf("a line of the description has %d characters: %s", len(line), line)
		}
	}
	run("dpkg-deb", "--raw-extract", deb, filepath.Join(dir, "raw"))
	for name, want := range map[string]string{
		"DEBIAN/conffiles":     "/etc/hello/hello.yaml\n",
		"DEBIAN/postinst":      "#!/bin/sh\nexit 0\n",
		"etc/hello/hello.yaml": "a: 1\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, "raw", name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	check := exec.Command("md5sum", "-c", "--quiet", "DEBIAN/md5sums")
	check.Dir = filepath.Join(dir, "raw")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("md5sums: %v\n%s", err, out)
	}
}

// The layout's digests and sizes match its parts, from the index to the layer.
func TestLayout(t *testing.T) {
	i := Image{Arch: "arm", Files: example().Files, User: "65532:65532", Entrypoint: []string{"/usr/bin/hello"}, WorkingDir: "/", Volumes: []string{"/var"}, Time: at}
	amd64 := i
	amd64.Arch = "amd64"
	data, err := Layout("1.2.0", []Image{amd64, i})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	read := func(d oci.Descriptor, into any) []byte {
		t.Helper()
		b := files["blobs/"+strings.Replace(d.Digest.String(), ":", "/", 1)]
		if int64(len(b)) != d.Size || len(b) == 0 {
			t.Fatalf("%s has %d bytes, want %d", d.Digest, len(b), d.Size)
		}
		if into != nil {
			if err := json.Unmarshal(b, into); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}
	var index, all oci.Index
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	read(index.Manifests[0], &all)
	if len(all.Manifests) != 2 {
		t.Fatalf("%d images, want 2", len(all.Manifests))
	}
	for n, want := range []string{"amd64", "arm"} {
		var m oci.Manifest
		var c oci.Image
		read(all.Manifests[n], &m)
		read(m.Config, &c)
		if c.Architecture != want || all.Manifests[n].Platform.Architecture != want || c.Config.User != "65532:65532" {
			t.Errorf("image %d: %+v", n, c)
		}
		if got := entries(t, read(m.Layers[0], nil)); got["usr/bin/hello"] == nil {
			t.Errorf("layer of %s: %v", want, slices.Sorted(maps.Keys(got)))
		}
	}
}
