// Package telemetry reads what NVIDIA GPUs report about themselves through
// NVML, the driver's management library: energy, power, memory, utilisation,
// temperature.
//
// It calls NVML through NVIDIA's Go binding, go-nvml. That binding leaves 396
// functions for the dynamic linker to find, and a program built with it does
// not start under LD_BIND_NOW=1, or linked with -z now, where there is no
// driver. So this package defines all of them (stubs_*.S, names in
// functions.h): each jumps through a slot, and Open fills the slots from the
// library it has opened (slots.c).
//
// Telemetry is compiled in on Linux, on amd64 and arm64, with cgo and glibc.
// Elsewhere Open returns ErrUnavailable. go-nvml does not compile with musl:
// build with -tags nonvml there.
//
// A Reader may be used by several goroutines at the same time. Each reading
// asks the driver, which takes up to some milliseconds, so once a second is
// often enough.
//
// # Files
//
//   - reader.go: reads temperature, power and memory of GPUs through NVML
//   - reader_other.go: returns an error in builds without NVML
package telemetry

import "errors"

//go:generate go run ./internal/functions

// Library is the file that Open opens.
var Library = "libnvidia-ml.so.1"

// ErrUnavailable is a machine, or a build, without NVML.
var ErrUnavailable = errors.New("no NVIDIA management library")

// Reading is one GPU at one moment. A value that the card or driver does not
// report is 0 here, and listed in Missing.
type Reading struct {
	Index       int     `json:"index"`         // in NVML's order
	UUID        string  `json:"uuid"`          // "GPU-8f3c..."
	Name        string  `json:"name"`          // "NVIDIA H200"
	PCI         string  `json:"pci"`           // "0000:1b:00.0", as gpu.Device.PCI
	Energy      float64 `json:"energy_j"`      // joules since the driver was loaded: subtract two readings
	Power       float64 `json:"power_w"`       // watts, a mean over about a second on recent cards
	MemoryUsed  uint64  `json:"memory_used"`   // bytes, of all programs
	MemoryTotal uint64  `json:"memory_total"`  // bytes
	Utilisation float64 `json:"utilisation"`   // share of the last sampling period in which a kernel ran, 0 to 1
	MemoryBusy  float64 `json:"memory_busy"`   // share in which memory was read or written, 0 to 1
	Temperature float64 `json:"temperature_c"` // degrees Celsius

	Missing []string `json:"missing,omitempty"` // fields' names in JSON
}
