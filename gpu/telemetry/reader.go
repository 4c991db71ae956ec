//go:build linux && cgo

package telemetry

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "nvml.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// Reader is an opened NVML.
type Reader struct {
	mu sync.RWMutex // written by Close
	n  *C.eusn_nvml
}

// Open opens NVML. Without it the error is ErrUnavailable.
func Open() (*Reader, error) {
	path := C.CString(Library)
	defer C.free(unsafe.Pointer(path))
	var why [256]C.char
	n := C.eusn_nvml_open(path, &why[0], C.size_t(len(why)))
	if n == nil {
		return nil, fmt.Errorf("telemetry: %w: %s", ErrUnavailable, C.GoString(&why[0]))
	}
	return &Reader{n: n}, nil
}

var errClosed = errors.New("telemetry: the reader is closed")

// Read asks every GPU of the machine, in NVML's order; the PCI address says
// which of gpu.Devices each is. A GPU that does not answer is left out, and the
// error says why; the others are there beside it.
func (r *Reader) Read() ([]Reading, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.n == nil {
		return nil, errClosed
	}
	var count C.unsigned
	if rc := C.eusn_nvml_count(r.n, &count); rc != 0 {
		return nil, r.fail("count devices", rc)
	}
	var list []Reading
	var errs []error
	for i := range int(count) {
		var c C.eusn_reading
		if rc := C.eusn_nvml_read(r.n, C.unsigned(i), &c); rc != 0 {
			errs = append(errs, r.fail(fmt.Sprintf("device %d", i), rc))
			continue
		}
		v := reading(&c)
		v.Index = i
		list = append(list, v)
	}
	return list, errors.Join(errs...)
}

func reading(c *C.eusn_reading) Reading {
	v := Reading{
		UUID: C.GoString(&c.uuid[0]), Name: C.GoString(&c.name[0]), PCI: C.GoString(&c.pci[0]),
		Energy: float64(c.energy_mj) / 1e3, Power: float64(c.power_mw) / 1e3,
		MemoryUsed: uint64(c.memory_used), MemoryTotal: uint64(c.memory_total),
		Utilisation: float64(c.busy) / 100, MemoryBusy: float64(c.memory_busy) / 100, Temperature: float64(c.temperature),
	}
	for _, f := range []struct {
		rc    C.int
		names []string
	}{
		{c.uuid_rc, []string{"uuid"}}, {c.energy_rc, []string{"energy_j"}}, {c.power_rc, []string{"power_w"}}, {c.memory_rc, []string{"memory_used", "memory_total"}},
		{c.busy_rc, []string{"utilisation", "memory_busy"}}, {c.temperature_rc, []string{"temperature_c"}},
	} {
		if f.rc != 0 {
			v.Missing = append(v.Missing, f.names...)
		}
	}
	return v
}

func (r *Reader) fail(op string, rc C.int) error {
	return &failure{op, code(rc), C.GoString(C.eusn_nvml_text(r.n, rc))}
}

// Close gives NVML back.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		return nil
	}
	rc := C.eusn_nvml_close(r.n)
	r.n = nil
	if rc != 0 {
		return &failure{op: "close", code: code(rc), text: "the library did not shut down"}
	}
	return nil
}
