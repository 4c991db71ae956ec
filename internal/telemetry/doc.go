// Package telemetry reads the reports of NVIDIA GPUs through NVML, the driver's management
// library: energy, power, memory, utilization, temperature.
//
// It calls NVML through NVIDIA's Go binding, go-nvml. This binding leaves 396 functions for the
// dynamic linker, and without a driver a program with the binding does not start under
// LD_BIND_NOW=1, or linked with -z now. So this package defines all these functions (stubs_*.S,
// names in functions.h): each jumps through a slot, and Open fills the slots from the opened
// library (slots.c).
//
// Telemetry is compiled in on Linux, on amd64 and arm64, with cgo and glibc. Elsewhere Open
// returns ErrUnavailable. go-nvml does not compile with musl: build with -tags nonvml there.
//
// A Reader is safe for concurrent use. Each reading queries the driver, which takes up to some
// milliseconds, so one reading per second is enough.
//
// # Files
//
//   - reader.go: reads temperature, power and memory of GPUs through NVML
//   - reader_other.go: returns an error in builds without NVML
package telemetry

import "errors"

//go:generate go run ./internal/functions

// Library is the file name of NVML.
var Library = "libnvidia-ml.so.1"

// ErrUnavailable is the error of a machine, or a build, without NVML.
var ErrUnavailable = errors.New("no NVIDIA management library")

// Reading is the state of one GPU. A value unknown to the card or driver is 0, and listed in
// Missing.
type Reading struct {
	Index       int     `json:"index"`         // in NVML's order
	UUID        string  `json:"uuid"`          // "GPU-8f3c..."
	Name        string  `json:"name"`          // "NVIDIA H200"
	PCI         string  `json:"pci"`           // "0000:1b:00.0", as gpu.Device.PCI
	Energy      float64 `json:"energy_j"`      // joules since the driver was loaded: subtract two readings
	Power       float64 `json:"power_w"`       // watts, a mean over about a second on recent cards
	MemoryUsed  uint64  `json:"memory_used"`   // bytes, of all programs
	MemoryTotal uint64  `json:"memory_total"`  // bytes
	Utilization float64 `json:"utilization"`   // share of the last sampling period in which a kernel ran, 0 to 1
	MemoryBusy  float64 `json:"memory_busy"`   // share in which memory was read or written, 0 to 1
	Temperature float64 `json:"temperature_c"` // degrees Celsius

	Missing []string `json:"missing,omitempty"` // fields' names in JSON
}
