// Command bochs holds the AVX-512 kernels to their bits on machines without
// AVX-512: it compiles their tests, boots a Linux kernel with them on an
// emulated Skylake-X (Bochs, https://bochs.sourceforge.io), and fails unless
// each test named here passed and none was skipped. It tells nothing of speed.
//
// Debian packages: bochs bochs-term isolinux syslinux-common genisoimage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// job is a package's tests. Left out is what takes minutes in the plain
// references: networks of 100 units and more in the conformance suite (the
// kernel's own test has up to 230), large products, all but one number of
// streams for each network of TestEven, and most repetitions (-test.short). So
// is threading, and the rest of those packages, which know no instruction set
// and are tested where this runs.
type job struct {
	name, pkg string
	args      string
	want      []string // tests that must pass
}

var jobs = []job{
	{"kernel", "./reservoir/internal/kernel", "-test.v -test.short -test.run=/^avx512$",
		[]string{"TestMoves/avx512", "TestSteps/avx512", "TestSomeSums/avx512", "TestTanh/avx512", "TestMaxOfZeros/avx512", "TestReadout/avx512", "TestWithin/avx512"}},
	{"dense", "./internal/dense", "-test.v -test.short -test.run=(Products|Solves|Packed|NonFinite)/^avx512$ -test.skip=Large|Triangular",
		[]string{"TestProducts/avx512", "TestSolves/avx512", "TestPacked/avx512", "TestNonFinite/avx512"}},
	{"reservoir", "./reservoir", "-test.v -test.short -test.run=Test(Vector|Even|CallsStayInside)/^(avx512|paper|sums|bank)$/^(avx512|1_thread|single|narrow|wide)$ -test.skip=TestVector/avx512/1_thread/Shapes|TestVector/avx512/.*/Shapes/.*/(100|101|127|200|255|1024)|TestEven/paper/avx512/3|TestEven/sums/avx512/(15|32)|TestEven/bank/avx512/(15|35)",
		[]string{"TestVector/avx512/1_thread", "TestVector/avx512/single", "TestVector/avx512/narrow", "TestVector/avx512/wide",
			"TestCallsStayInside/avx512", "TestEven/paper/avx512/15", "TestEven/sums/avx512/35", "TestEven/bank/avx512/32"}},
}

func main() {
	kernel := flag.String("kernel", newest("/boot/vmlinuz-*"), "Linux kernel to boot (bzImage, x86-64)")
	limit := flag.Duration("limit", 20*time.Minute, "give up after this long (alone on a core it takes about 4 minutes)")
	only := flag.String("only", "", "run this job alone: kernel, dense or reservoir")
	keep := flag.String("dir", "", "work in this folder and keep it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, fmt.Errorf("no end after %v", *limit))
	defer cancel()
	if err := run(ctx, *kernel, *only, *keep); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		fmt.Fprintln(os.Stderr, "bochs:", err)
		os.Exit(1)
	}
}

func newest(pattern string) string {
	names, _ := filepath.Glob(pattern)
	if len(names) == 0 {
		return ""
	}
	return slices.Max(names)
}

func run(ctx context.Context, kernel, only, dir string) error {
	if kernel == "" {
		return errors.New("no kernel in /boot: name one with -kernel (Debian: apt-get download linux-image-cloud-amd64's newest image, dpkg-deb -x it)")
	}
	chosen := jobs
	if only != "" {
		chosen = slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return j.name != only })
		if len(chosen) == 0 {
			return fmt.Errorf("no job %q: want kernel, dense or reservoir", only)
		}
	}
	if dir == "" {
		temporary, err := os.MkdirTemp("", "bochs")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		dir = temporary
	}
	if err := image(ctx, kernel, dir, chosen); err != nil {
		return err
	}
	said, err := boot(ctx, dir)
	if bad := verdict(said, chosen); bad != nil {
		return fmt.Errorf("%w\nthe machine said:\n%s", errors.Join(bad, err), tail(said, 8000))
	}
	return nil // how the emulator itself ends says nothing: switched off is 1
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// image makes dir/cd.iso: boot loader, kernel, and the tests in an initramfs.
func image(ctx context.Context, kernel, dir string, chosen []job) error {
	root, disc := filepath.Join(dir, "root"), filepath.Join(dir, "disc")
	for _, d := range []string{root, disc} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			return err
		}
	}
	var list strings.Builder
	for _, j := range chosen {
		fmt.Fprintln(&list, j.name, j.args)
		if err := goTool(ctx, "test", "-c", "-ldflags=-s -w", "-o", filepath.Join(root, j.name), j.pkg); err != nil {
			return err
		}
	}
	if err := goTool(ctx, "build", "-ldflags=-s -w", "-o", filepath.Join(root, "init"), "./internal/testing/bochs/guest"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "jobs"), []byte(list.String()), 0o666); err != nil {
		return err
	}
	archive, err := newInitramfs(root)
	if err != nil {
		return err
	}
	files := map[string][]byte{"initrd": archive, "isolinux.cfg": []byte(loader)}
	for name, from := range map[string]string{
		"linux": kernel, "isolinux.bin": "/usr/lib/ISOLINUX/isolinux.bin", "ldlinux.c32": "/usr/lib/syslinux/modules/bios/ldlinux.c32",
	} {
		if files[name], err = os.ReadFile(from); err != nil {
			return fmt.Errorf("%w (Debian: isolinux, syslinux-common)", err)
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(disc, name), data, 0o666); err != nil {
			return err
		}
	}
	return tool(ctx, dir, nil, "genisoimage", "-quiet", "-o", "cd.iso", "-b", "isolinux.bin", "-c", "boot.cat",
		"-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", "disc")
}

// goTool compiles for the emulated machine. GOAMD64=v3 (it has that) makes the
// references quicker.
func goTool(ctx context.Context, args ...string) error {
	return tool(ctx, "", []string{"GOOS=linux", "GOARCH=amd64", "GOAMD64=v3", "CGO_ENABLED=0"}, "go", args...)
}

func tool(ctx context.Context, dir string, env []string, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
