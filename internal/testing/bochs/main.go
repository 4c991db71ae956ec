// Command bochs tests the bits of the AVX-512 kernels on machines without AVX-512. It
// compiles the tests of the kernels, boots a Linux kernel with the test binaries on an
// emulated Skylake-X (Bochs, https://bochs.sourceforge.io), and fails unless each test
// named here passed and no test was skipped. It does not measure speed. On a machine with
// AVX-512 the same test binaries run without the emulator.
//
// The file passed records the hashes of the test binaries that passed. A recorded test
// binary is not rerun: the same instructions give the same bits.
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

	"golang.org/x/sys/cpu"
)

// job is the tests of a package. Tests that take minutes in the plain references are left
// out: networks of 100 units and more in the conformance suite (the kernel's own test has
// up to 230), large products, all but one number of streams for each network of TestEven,
// most channels and lags of kind mixed, and most repetitions (-test.short). Threading and
// the remaining tests of these packages are left out as well: they do not depend on the
// instruction set, and run on any machine.
type job struct {
	name, pkg string
	args      string
	want      []string // tests that must pass
}

var jobs = []job{
	{"kernel", "./internal/kernel", "-test.v -test.short -test.run=/^avx512$",
		[]string{"TestMoves/avx512", "TestSteps/avx512", "TestSomeSums/avx512", "TestMixed/avx512", "TestTanh/avx512", "TestMaxOfZeros/avx512", "TestReadout/avx512", "TestApart/avx512", "TestNovelty/avx512", "TestWithin/avx512"}},
	{"dense", "./internal/dense", "-test.v -test.short -test.run=(Products|Solves|NonFinite)/^avx512$ -test.skip=Large|Triangular",
		[]string{"TestProducts/avx512", "TestSolves/avx512", "TestNonFinite/avx512"}},
	{"reservoir", "./reservoir/cpu", "-test.v -test.short -test.run=Test(Vector|Even|CallsStayInside)/^(avx512|paper|sums|bank)$/^(avx512|1_thread|single|narrow|wide|threads=1)$ -test.skip=TestVector/avx512/1_thread/Shapes|TestVector/avx512/.*/Shapes/.*/(100|101|127|200|255|1024)|TestVectorMixed/avx512/threads=1/Shapes/mixed/(lag|channels|tanh|saturated)|TestEven/paper/avx512/1[69]|TestEven/sums/avx512/1[56]|TestEven/bank/avx512/1[59]",
		[]string{"TestVector/avx512/1_thread", "TestVector/avx512/single", "TestVector/avx512/narrow", "TestVector/avx512/wide", "TestVectorMixed/avx512/threads=1",
			"TestCallsStayInside/avx512", "TestEven/paper/avx512/15", "TestEven/sums/avx512/19", "TestEven/bank/avx512/16"}},
}

func main() {
	kernel := flag.String("kernel", newestFile("/boot/vmlinuz-*"), "Linux kernel to boot (bzImage, x86-64)")
	limit := flag.Duration("limit", 20*time.Minute, "give up after this long (on an idle core it takes about 6 minutes)")
	only := flag.String("only", "", "run only this job: kernel, dense or reservoir")
	var o options
	flag.StringVar(&o.dir, "dir", "", "work in this folder and keep it")
	flag.BoolVar(&o.all, "all", false, "rerun the jobs in the record as well")
	flag.BoolVar(&o.record, "record", false, "add the passed jobs to the record")
	flag.BoolVar(&o.pending, "pending", false, "run nothing: print the jobs that are not in the record")
	flag.BoolVar(&o.emulate, "emulate", false, "use the emulator even if this machine has AVX-512")
	flag.Parse()
	o.kernel, o.only = *kernel, *only
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, fmt.Errorf("no end after %v", *limit))
	defer cancel()
	if err := o.runJobs(ctx); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		fmt.Fprintln(os.Stderr, "bochs:", err)
		os.Exit(1)
	}
}

func newestFile(pattern string) string {
	names, _ := filepath.Glob(pattern)
	if len(names) == 0 {
		return ""
	}
	return slices.Max(names)
}

// options select the jobs and the way to run them.
type options struct {
	kernel, only, dir             string
	all, record, pending, emulate bool
}

func (o options) runJobs(ctx context.Context) error {
	chosen := jobs
	if o.only != "" {
		chosen = slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return j.name != o.only })
		if len(chosen) == 0 {
			return fmt.Errorf("no job %q: want kernel, dense or reservoir", o.only)
		}
	}
	if o.dir == "" {
		temporary, err := os.MkdirTemp("", "bochs")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		o.dir = temporary
	}
	root := filepath.Join(o.dir, "root")
	if err := compile(ctx, root, chosen); err != nil {
		return err
	}
	passed, err := readRecord()
	if err != nil {
		return err
	}
	sums, err := hashJobs(root, chosen)
	if err != nil {
		return err
	}
	if !o.all {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(j job) bool { return passed[j.name] == sums[j.name] })
	}
	if o.pending {
		for _, j := range chosen {
			fmt.Println(j.name)
		}
		return nil
	}
	if len(chosen) == 0 {
		fmt.Println("nothing to run: these test binaries have passed (" + record + "); -all reruns them")
		return nil
	}
	output, err := o.execute(ctx, root, chosen)
	if bad := checkOutput(output, chosen); bad != nil {
		return fmt.Errorf("%w\noutput of the machine:\n%s", errors.Join(bad, err), output[max(0, len(output)-8000):])
	}
	// The emulator's own exit code is no result: it is 1 after the machine switches off.
	if !o.record {
		return nil
	}
	for _, j := range chosen {
		passed[j.name] = sums[j.name]
	}
	return writeRecord(passed)
}

// execute runs the jobs and returns their output.
func (o options) execute(ctx context.Context, root string, chosen []job) (string, error) {
	if x := cpu.X86; !o.emulate && x.HasAVX512F && x.HasAVX512VL && x.HasAVX512DQ && x.HasAVX512BW {
		return runNative(ctx, root, chosen)
	}
	if o.kernel == "" {
		return "", errors.New("no kernel in /boot: name one with -kernel (Debian: apt-get download linux-image-cloud-amd64's newest image, dpkg-deb -x it)")
	}
	if err := writeImage(ctx, o.kernel, o.dir, chosen); err != nil {
		return "", err
	}
	return boot(ctx, o.dir)
}

// compile builds the test binaries, and the program that starts them. The same sources
// and compiler give the same bytes in every folder.
func compile(ctx context.Context, root string, chosen []job) error {
	if err := os.MkdirAll(root, 0o777); err != nil {
		return err
	}
	flags := []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w"}
	for _, j := range chosen {
		if err := goTool(ctx, slices.Concat([]string{"test", "-c"}, flags, []string{"-o", filepath.Join(root, j.name), j.pkg})...); err != nil {
			return err
		}
	}
	return goTool(ctx, slices.Concat([]string{"build"}, flags, []string{"-o", filepath.Join(root, "init"), "./internal/testing/bochs/guest"})...)
}

// writeImage writes dir/cd.iso: boot loader, kernel, and dir/root in an initramfs.
func writeImage(ctx context.Context, kernel, dir string, chosen []job) error {
	root, disc := filepath.Join(dir, "root"), filepath.Join(dir, "disc")
	if err := os.MkdirAll(disc, 0o777); err != nil {
		return err
	}
	var list strings.Builder
	for _, j := range chosen {
		fmt.Fprintln(&list, j.name, j.args)
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
	return runTool(ctx, dir, nil, "genisoimage", "-quiet", "-o", "cd.iso", "-b", "isolinux.bin", "-c", "boot.cat",
		"-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", "disc")
}

// goTool compiles for the emulated machine. GOAMD64=v3, which the machine supports, makes
// the references faster.
func goTool(ctx context.Context, args ...string) error {
	return runTool(ctx, "", []string{"GOOS=linux", "GOARCH=amd64", "GOAMD64=v3", "CGO_ENABLED=0"}, "go", args...)
}

func runTool(ctx context.Context, dir string, env []string, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
