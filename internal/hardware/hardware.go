package hardware

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"
)

// CPUFeatures names the instruction sets that matter to engines.
func CPUFeatures() []string {
	var names []string
	add := func(ok bool, name string) {
		if ok {
			names = append(names, name)
		}
	}
	switch runtime.GOARCH {
	case "amd64":
		add(cpu.X86.HasAVX2, "AVX2")
		add(cpu.X86.HasFMA, "FMA")
		add(cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW, "AVX-512 (F, VL, DQ, BW)")
	case "arm64":
		add(cpu.ARM64.HasASIMD, "NEON")
		add(cpu.ARM64.HasSVE, "SVE")
	}
	return names
}

// MachineName describes the machine in a line, for files of measurements.
func MachineName() string {
	words := []string{fmt.Sprintf("%d x %s", runtime.NumCPU(), cmp.Or(cpuModel(), "CPU of unknown name"))}
	return strings.Join(append(append(words, CPUFeatures()...), runtime.GOOS+"/"+runtime.GOARCH), ", ")
}

// cpuModel is what the system calls the CPU; empty where it does not say.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Memory is the machine's memory and what is free for use, in bytes; zeros
// where the system has no /proc/meminfo.
func Memory() (total, available uint64) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kib); n == 1 {
			total = kib << 10
		}
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			available = kib << 10
		}
	}
	return total, available
}

// NVIDIA is the driver's version and the number of its devices, from what
// the driver shows in /proc and /dev; empty and 0 where there is none.
func NVIDIA() (driver string, devices int) {
	found, _ := filepath.Glob("/dev/nvidia[0-9]*") // the pattern is well-formed, so there is no error
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return "", len(found)
	}
	for _, word := range strings.Fields(string(text)) {
		// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..."
		if word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return word, len(found)
		}
	}
	return "unknown", len(found)
}

// MachineMemory is the machine's, or what its control group may use; 0 where
// the system does not say.
func MachineMemory() uint64 {
	total, _ := Memory()
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && (total == 0 || limit < total) {
			return limit
		}
	}
	return total
}
