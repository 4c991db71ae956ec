package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// initramfs builds the archive that a Linux kernel unpacks as its first file system:
// cpio, "newc" (Documentation/driver-api/early-userspace of Linux). Every file is
// executable.
type initramfs struct {
	bytes.Buffer
	inodes int
}

const (
	directory  = 0o40755
	executable = 0o100755
	character  = 0o20600
)

func (a *initramfs) addFile(name string, mode int, device [2]int, data []byte) {
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

// pad appends at least least zeros, up to the next multiple of 4.
func (a *initramfs) pad(least int) {
	a.Write(make([]byte, least+(4-(a.Len()+least)%4)%4))
}

// newInitramfs builds the archive of a folder's files. The kernel writes the output of
// init to /dev/console; programs start with /dev/null.
func newInitramfs(dir string) ([]byte, error) {
	var a initramfs
	a.addFile("dev", directory, [2]int{}, nil)
	a.addFile("dev/console", character, [2]int{5, 1}, nil)
	a.addFile("dev/null", character, [2]int{1, 3}, nil)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		a.addFile(filepath.Base(name), executable, [2]int{}, data)
	}
	a.addFile("TRAILER!!!", 0, [2]int{}, nil)
	return a.Bytes(), nil
}

// commandLine is the kernel's command line: messages go to the serial port; mitigations
// and the calibration of a delay loop cost emulated time. Bochs 2.7 reports a wrong size
// of the compacted register area of XSAVEC and XSAVES, and Linux would then disable all
// vector registers: clearcpuid makes Linux use XSAVE.
const commandLine = "console=ttyS0,115200 quiet panic=-1 mitigations=off lpj=1000000 tsc=reliable clearcpuid=xsavec,xsaves"

const loader = "default eusn\nprompt 0\nlabel eusn\n kernel /linux\n append initrd=/initrd " + commandLine + "\n"

// machine configures the emulated machine. Its display is a terminal, whose output is not
// read: the other displays in Debian's package need a window system or open a port. ips
// is the number of instructions per second of the machine's timers: a small number makes
// the serial port fast, a large number makes timer interrupts rare.
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
