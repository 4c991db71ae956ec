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

// CPUFeatures lists the instruction sets relevant to engines.
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

// cpuModel returns the system's name of the CPU; empty if unknown.
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

// Memory returns the total and the available memory in bytes; zeros without /proc/meminfo.
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

// NVIDIA returns the version of the driver and the number of its devices, from /proc and /dev;
// empty and 0 without a driver.
func NVIDIA() (driver string, devices int) {
	found, _ := filepath.Glob("/dev/nvidia[0-9]*") // the pattern is valid, so there is no error
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

// MachineMemory returns the memory of the machine, or the limit of its control group; 0 if
// unknown.
func MachineMemory() uint64 {
	total, _ := Memory()
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && (total == 0 || limit < total) {
			return limit
		}
	}
	return total
}
