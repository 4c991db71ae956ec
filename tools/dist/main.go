// Command dist makes the files of a release: packages for Debian and rpm, archives, a
// container image, bills of materials, checksums and their signature.
//
//	make dist
//	make dist PLATFORMS=linux/amd64
//
// It builds the current commit, in a separate clone: a release contains only committed
// files. The version is that of internal/cli; after a release also the commit, for example
// 0.1.0+20261130093000.b0bf30eaaad9. The time of all files is the commit's. So the same
// commit and the same Go give the same bytes, on every machine. CONTRIBUTING.md,
// "Release".
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/tools/dist/bom"
	"github.com/eusn-stream/eusn-stream/tools/dist/pack"
)

// all are the platforms of a release.
const all = "linux/amd64,linux/arm64,linux/arm,darwin/amd64,darwin/arm64,windows/amd64"

func main() {
	out := flag.String("out", "dist", "folder for the files; its content is replaced")
	platforms := flag.String("platforms", all, "platforms to build for, as GOOS/GOARCH; linux/arm is ARMv7")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := release(ctx, *out, strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// writePackages builds for a platform, and writes its packages to out.
func (s *source) writePackages(ctx context.Context, platform, out string) (*files, error) {
	b, err := s.build(ctx, platform)
	if err != nil {
		return nil, err
	}
	r, err := s.files(b)
	if err != nil {
		return nil, err
	}
	made, err := r.packages()
	if err != nil {
		return nil, err
	}
	for _, f := range made {
		if err := write(filepath.Join(out, f.Path), f.Data); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func release(ctx context.Context, out string, platforms []string) error {
	for _, p := range platforms {
		if !slices.Contains(strings.Split(all, ","), p) {
			return fmt.Errorf("-platforms: %q: want platforms of %s", p, all)
		}
	}
	src, done, err := checkout(ctx)
	if err != nil {
		return err
	}
	defer done()
	key, err := secretKey(src.dir)
	if err != nil {
		return err
	}
	if err := emptyFolder(out); err != nil {
		return err
	}
	var images []pack.Image
	var r *files
	for _, p := range platforms {
		if r, err = src.writePackages(ctx, p, out); err != nil {
			return err
		}
		if strings.HasPrefix(p, "linux/") {
			images = append(images, r.image())
		}
	}
	if len(images) > 0 {
		layout, err := pack.Layout(strings.ReplaceAll(r.version, "+", "-"), images) // a tag has no +
		if err != nil {
			return err
		}
		if err := write(filepath.Join(out, "eusn-stream-"+r.version+"-oci.tar"), layout); err != nil {
			return err
		}
	}
	if err := writeSums(out); err != nil {
		return err
	}
	if key == nil {
		fmt.Printf("This release is unsigned: %s names no secret key (CONTRIBUTING.md, \"Release\").\n", keyVariable)
		return nil
	}
	return sign(out, key, r.version, src.time)
}

// emptyFolder creates a folder, or removes a release from it. A folder with other files
// is not changed.
func emptyFolder(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	list, err := os.ReadFile(filepath.Join(out, sumsName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	before := append(strings.Fields(string(list)), sumsName, signatureName)
	for _, e := range entries {
		if !slices.Contains(before, e.Name()) {
			return fmt.Errorf("%s holds %s, which is not part of a release: specify another folder", out, e.Name())
		}
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(out, e.Name())); err != nil {
			return err
		}
	}
	return os.MkdirAll(out, 0o755)
}

const sumsName = "SHA256SUMS"

// writeSums writes the checksums of all files, for sha256sum -c.
func writeSums(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return write(filepath.Join(out, sumsName), b.Bytes())
}

func write(path string, data []byte) error {
	fmt.Printf("%9d  %s\n", len(data), path)
	return os.WriteFile(path, data, 0o644)
}

// bill returns the bill of materials and the licenses of a program.
func (b *built) bill(src *source) (materials, licenses []byte, err error) {
	if materials, err = bom.Write(b.program, b.version, src.time); err != nil {
		return nil, nil, err
	}
	licenses, err = bom.Licenses(b.program, src.goroot, src.moduleDir)
	return materials, licenses, err
}
