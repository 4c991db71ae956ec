package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const ticks = 100 // per second, of /proc/PID/stat

// cpuTime returns the CPU time of stage and server so far, in seconds.
func (p *plant) cpuTime() (total float64, err error) {
	for _, c := range []*exec.Cmd{p.stage, p.server} {
		if c == nil {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		if err != nil {
			return 0, err
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		for _, text := range f[11:13] { // in user mode, in the kernel
			t, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, err
			}
			total += t / ticks
		}
	}
	return total, nil
}

func resident(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(b), "VmRSS:")
	var kb float64
	_, err = fmt.Sscanf(after, "%f", &kb)
	return 1024 * kb, err
}

func loadAverage() (v float64, err error) {
	b, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscanf(string(b), "%f", &v)
	}
	return v, err
}

func folderSize(dir string) (total float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file removed by the server meanwhile
		}
		if i, err := d.Info(); err == nil {
			total += float64(i.Size())
		}
		return nil
	})
	return total, err
}
