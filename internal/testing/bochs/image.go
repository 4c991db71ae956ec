package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// initramfs collects files in the archive that a Linux kernel unpacks as its
// first file system: cpio, "newc" (Documentation/driver-api/early-userspace
// of Linux). Every file is executable.
type initramfs struct {
	bytes.Buffer
	inodes int
}

const (
	directory  = 0o40755
	executable = 0o100755
	character  = 0o20600
)

func (a *initramfs) add(name string, mode int, device [2]int, data []byte) {
	a.inodes++
	a.WriteString("070701")
	for _, v := range []int{a.inodes, mode, 0, 0, 1, 0, len(data), 0, 0, device[0], device[1], len(name) + 1, 0} {
		fmt.Fprintf(a, "%08x", v)
	}
	a.WriteString(name)
	a.pad(1)
	a.Write(data)
	a.pad(0)
}

// pad adds zeros, least of them at least, up to the next multiple of 4.
func (a *initramfs) pad(least int) {
	a.Write(make([]byte, least+(4-(a.Len()+least)%4)%4))
}

// newInitramfs makes the files of a folder those of the root. The kernel sends
// what init writes to /dev/console; programs are started with /dev/null.
func newInitramfs(dir string) ([]byte, error) {
	var a initramfs
	a.add("dev", directory, [2]int{}, nil)
	a.add("dev/console", character, [2]int{5, 1}, nil)
	a.add("dev/null", character, [2]int{1, 3}, nil)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		a.add(filepath.Base(name), executable, [2]int{}, data)
	}
	a.add("TRAILER!!!", 0, [2]int{}, nil)
	return a.Bytes(), nil
}

// The kernel's command line: what it says comes over the serial port;
// mitigations and the calibration of a delay loop cost emulated time. Bochs
// 2.7 says the wrong size of the compacted register area of XSAVEC and XSAVES,
// and Linux would then do without any vector registers: it is told to use
// XSAVE.
const commandLine = "console=ttyS0,115200 quiet panic=-1 mitigations=off lpj=1000000 tsc=reliable clearcpuid=xsavec,xsaves"

const loader = "default eusn\nprompt 0\nlabel eusn\n kernel /linux\n append initrd=/initrd " + commandLine + "\n"

// The emulated machine. Its display is a terminal, which is not read: the other
// displays in Debian's package want a window system or open a port. ips is how
// many instructions one second of its timers takes: a small number makes the
// serial port fast, a large one the timers rare.
const machine = `display_library: term
cpu: model=corei7_skylake_x, count=1, ips=100000000, reset_on_triple_fault=0
megs: 512
romimage: file=%[1]s/BIOS-bochs-latest
vgaromimage: file=%[1]s/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=cd.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=serial
clock: sync=none, time0=1000000000
panic: action=fatal
log: bochs.log
`
