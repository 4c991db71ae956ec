package edge

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// bare are the flags for a program without a library.
var bare = []string{"-O2", "-ffreestanding", "-nostdlib", "-static"}

// emulated are processors that qemu emulates: with fused multiply-adds, and without.
var emulated = map[string]device{
	"arm64": {"lld", slices.Concat([]string{"clang-19", "--target=aarch64-linux-gnu", "-fuse-ld=lld"}, bare), []string{"qemu-aarch64"}},
	"armv7": {"lld", slices.Concat([]string{"clang-19", "--target=armv7-linux-gnueabihf", "-mfpu=vfpv3-d16", "-fuse-ld=lld"}, bare), []string{"qemu-arm"}},
	"armv8": {"lld", slices.Concat([]string{"clang-19", "--target=armv7-linux-gnueabihf", "-mfpu=neon-vfpv4", "-ffp-contract=fast", "-fuse-ld=lld"}, bare), []string{"qemu-arm"}},
}

// crossed are the same processors with Debian's cross compilers.
var crossed = map[string]device{
	"arm64": {"cross", slices.Concat([]string{"aarch64-linux-gnu-gcc"}, bare), []string{"qemu-aarch64"}},
	"armv7": {"cross", slices.Concat([]string{"arm-linux-gnueabihf-gcc"}, bare), []string{"qemu-arm"}},
}

// board is an emulated microcontroller board.
func board(cpu, machine, flash, ram string, flags ...string) device {
	return device{
		"cortexm",
		slices.Concat([]string{"arm-none-eabi-gcc", "-mcpu=" + cpu, "-mthumb", "-DSEMIHOSTING", "-T", "testdata/cortex-m.ld", "-Wl,--defsym=flash_size=" + flash, "-Wl,--defsym=ram_size=" + ram}, bare, flags),
		[]string{"qemu-system-arm", "-M", machine, "-nographic", "-semihosting-config", "enable=on,target=native", "-kernel"},
	}
}

// boards: the BBC micro:bit has 16 kB of memory and no floating-point unit, nor has the
// Cortex-M3; the Cortex-M4 and M7 here have a unit only for float32.
var boards = map[string]device{
	"cortex-m0": board("cortex-m0", "microbit", "256K", "16K"),
	"cortex-m3": board("cortex-m3", "mps2-an385", "4M", "4M"),
	"cortex-m4": board("cortex-m4", "mps2-an386", "4M", "4M", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
	"cortex-m7": board("cortex-m7", "mps2-an500", "4M", "4M", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"),
}

func onAll(t *testing.T, devices map[string]device, names []string, libraries ...string) {
	t.Helper()
	all := models(t)
	for _, name := range names {
		m := all[name]
		s := series(m)
		want := expectedLines(t, m, s, 7)
		for on, d := range devices {
			t.Run(name+"/"+on, func(t *testing.T) {
				t.Parallel()
				if _, err := exec.LookPath(d.run[0]); err != nil {
					parts.Absent(t, d.part, "%s is not installed", d.run[0])
				}
				if d.part == "lld" {
					if _, err := exec.LookPath("ld.lld-19"); err != nil {
						parts.Absent(t, d.part, "lld-19 is not installed")
					}
				}
				compareOutput(t, d, build(t, d, m, s, 7, libraries...), want)
			})
		}
	}
}

// TestEmulated runs the header on emulated ARM processors.
func TestEmulated(t *testing.T) { onAll(t, emulated, []string{"paper", "bank", "mixed cubic"}) }

// TestCross runs the header with Debian's cross compilers (gcc-aarch64-linux-gnu,
// gcc-arm-linux-gnueabihf).
func TestCross(t *testing.T) { onAll(t, crossed, []string{"paper", "bank", "mixed cubic"}) }

// TestCortexM runs the header on microcontrollers without an operating system (Debian:
// gcc-arm-none-eabi, qemu-system-arm).
func TestCortexM(t *testing.T) {
	for on, d := range boards {
		names := []string{"esn", "mixed tanh"}
		if on == "cortex-m0" {
			names = names[:1] // the second state is larger than its memory
		}
		onAll(t, map[string]device{on: d}, names, "-lgcc")
	}
}
