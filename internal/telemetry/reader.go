//go:build linux && cgo && !nonvml && (amd64 || arm64)

package telemetry

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "slots.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// tables guards what is global here: the slots, and go-nvml's choice of
// versions. Open and Close change them, readings use them.
var tables sync.RWMutex

// Reader is an opened NVML. All Readers of a program use the library that was
// opened last.
type Reader struct {
	lib nvml.Interface // nil after Close
}

// Open opens NVML. Without it the error is ErrUnavailable.
func Open() (*Reader, error) {
	tables.Lock()
	defer tables.Unlock()
	if err := bind(Library); err != nil {
		return nil, fmt.Errorf("telemetry: %w: %w", ErrUnavailable, err)
	}
	lib := nvml.New(nvml.WithLibraryPath(Library))
	if rc := lib.Init(); rc != nvml.SUCCESS {
		return nil, fmt.Errorf("telemetry: %w: nvmlInit: %v (error %d)", ErrUnavailable, rc, rc)
	}
	return &Reader{lib}, nil
}

// bind points go-nvml's functions at those of a library.
func bind(library string) error {
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	var why [256]C.char
	if C.eusn_nvml_bind(path, &why[0], C.size_t(len(why))) == 0 {
		return errors.New(C.GoString(&why[0]))
	}
	return nil
}

var errClosed = errors.New("telemetry: the reader is closed")

// Read asks every GPU of the machine, in NVML's order; the PCI address says
// which of gpu.Devices each is. A GPU that does not answer is left out, and the
// error says why; the list then has the others.
func (r *Reader) Read() ([]Reading, error) {
	tables.RLock()
	defer tables.RUnlock()
	if r.lib == nil {
		return nil, errClosed
	}
	count, rc := r.lib.DeviceGetCount()
	if rc != nvml.SUCCESS {
		return nil, failure("count devices", rc)
	}
	var list []Reading
	var errs []error
	for i := range count {
		v, rc := read(r.lib, i)
		if rc != nvml.SUCCESS {
			errs = append(errs, failure(fmt.Sprintf("device %d", i), rc))
			continue
		}
		list = append(list, v)
	}
	return list, errors.Join(errs...)
}

// read asks one GPU.
func read(lib nvml.Interface, index int) (Reading, nvml.Return) {
	device, rc := lib.DeviceGetHandleByIndex(index)
	if rc != nvml.SUCCESS {
		return Reading{}, rc
	}
	name, rc := device.GetName()
	if rc != nvml.SUCCESS {
		return Reading{}, rc
	}
	pci, rc := device.GetPciInfo()
	if rc != nvml.SUCCESS {
		return Reading{}, rc
	}
	// The driver interface writes the domain with four digits, NVML with eight.
	v := Reading{Index: index, Name: name, PCI: fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)}
	v.measure(device)
	return v, nvml.SUCCESS
}

// measure asks for what a card may lack. The value of a call that failed is
// not used: it may have written something.
func (v *Reading) measure(device nvml.Device) {
	known := func(rc nvml.Return, fields ...string) bool {
		if rc != nvml.SUCCESS {
			v.Missing = append(v.Missing, fields...)
		}
		return rc == nvml.SUCCESS
	}
	if uuid, rc := device.GetUUID(); known(rc, "uuid") {
		v.UUID = uuid
	}
	if millijoules, rc := device.GetTotalEnergyConsumption(); known(rc, "energy_j") {
		v.Energy = float64(millijoules) / 1e3
	}
	if milliwatts, rc := device.GetPowerUsage(); known(rc, "power_w") {
		v.Power = float64(milliwatts) / 1e3
	}
	if memory, rc := device.GetMemoryInfo(); known(rc, "memory_used", "memory_total") {
		v.MemoryUsed, v.MemoryTotal = memory.Used, memory.Total
	}
	if percent, rc := device.GetUtilizationRates(); known(rc, "utilisation", "memory_busy") {
		v.Utilisation, v.MemoryBusy = float64(percent.Gpu)/100, float64(percent.Memory)/100
	}
	if celsius, rc := device.GetTemperature(nvml.TEMPERATURE_GPU); known(rc, "temperature_c") {
		v.Temperature = float64(celsius)
	}
}

// failure says which call failed, in the driver's words.
func failure(op string, rc nvml.Return) error {
	return fmt.Errorf("telemetry: %s: %v (error %d)", op, rc, rc)
}

// Close closes NVML.
func (r *Reader) Close() error {
	tables.Lock()
	defer tables.Unlock()
	if r.lib == nil {
		return nil
	}
	rc := r.lib.Shutdown()
	r.lib = nil
	if rc != nvml.SUCCESS {
		return failure("close", rc)
	}
	return nil
}
