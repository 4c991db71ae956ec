//go:build linux

// Command guest is the first and only program of the emulated machine. It runs
// the test binaries in the list next to it, writes their output and how they
// ended to the serial port, and switches the machine off.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: runs as the init of an emulated machine; see internal/testing/bochs")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Println("== error:", err)
	}
	fmt.Println("== end")
	drain()
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
}

// run starts the programs of /jobs, one a line with its arguments.
func run() error {
	if err := os.Mkdir("/tmp", 0o777); err != nil {
		return err
	}
	jobs, err := os.Open("/jobs")
	if err != nil {
		return err
	}
	defer jobs.Close()
	lines := bufio.NewScanner(jobs)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		fmt.Println("== start", words[0])
		c := exec.Command("/"+words[0], words[1:]...)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.Env = []string{"EUSN_REQUIRE=avx512"}
		if err := c.Run(); err != nil {
			fmt.Println("== failed", words[0]+":", err)
			continue
		}
		fmt.Println("== passed", words[0])
	}
	return lines.Err()
}

// drain waits until the serial port has sent everything (tcdrain).
func drain() {
	const TCSBRK = 0x5409
	syscall.Syscall(syscall.SYS_IOCTL, 1, TCSBRK, 1)
}
