//go:build linux && cgo

package cuda

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// Driver is an opened and initialized driver library.
type Driver struct {
	api     *C.eusn_driver
	version int
	devices int
}

var (
	opening sync.Mutex
	opened  = map[string]*Driver{} // a library is loaded once and stays
)

// Open loads and initializes the driver. A failure is not remembered: a driver
// installed later is found.
func Open() (*Driver, error) {
	opening.Lock()
	defer opening.Unlock()
	d := opened[Library]
	if d == nil {
		d = new(Driver)
		path := C.CString(Library)
		defer C.free(unsafe.Pointer(path))
		var why [256]C.char
		switch C.eusn_open(path, &d.api, &why[0], C.size_t(len(why))) {
		case C.EUSN_NO_LIBRARY:
			return nil, &Error{Kind: NoDriver, Op: "open driver", Detail: C.GoString(&why[0])}
		case C.EUSN_NO_SYMBOL:
			return nil, &Error{Kind: OldDriver, Op: "open driver", Detail: "it has no " + C.GoString(&why[0])}
		}
		opened[Library] = d
	}
	var version, devices C.int
	if r := C.eusn_init(d.api, &version, &devices); r != 0 {
		return nil, d.fail("cuInit", r)
	}
	if version < MinVersion {
		return nil, &Error{Kind: OldDriver, Op: "open driver", Detail: fmt.Sprintf("it offers CUDA %d.%d, want %d.%d", version/1000, version%1000/10, MinVersion/1000, MinVersion%1000/10)}
	}
	if devices == 0 {
		return nil, &Error{Kind: NoDevice, Op: "count devices"}
	}
	if d.version != int(version) || d.devices != int(devices) { // the first time: later, other goroutines may read them
		d.version, d.devices = int(version), int(devices)
	}
	return d, nil
}

// Version is the newest CUDA interface the driver offers, as in 12.4.
func (d *Driver) Version() string { return fmt.Sprintf("%d.%d", d.version/1000, d.version%1000/10) }

func (d *Driver) fail(op string, r C.int) error {
	if r == 0 {
		return nil
	}
	detail := C.GoString(C.eusn_error_name(d.api, r))
	if text := C.GoString(C.eusn_error_text(d.api, r)); text != "" {
		detail += ", " + text
	}
	return &Error{Kind: kindOf(int(r)), Op: op, Code: int(r), Detail: detail}
}

// Devices lists the GPUs in the driver's order.
func (d *Driver) Devices() ([]Device, error) {
	list := make([]Device, d.devices)
	for i := range list {
		var handle C.int
		var name, pci [256]C.char
		var memory C.size_t
		if r := C.eusn_device(d.api, C.int(i), &handle, &name[0], &pci[0], C.size_t(len(name)), &memory); r != 0 {
			return nil, d.fail(fmt.Sprintf("describe device %d", i), r)
		}
		v := Device{Ordinal: i, Name: C.GoString(&name[0]), PCI: strings.ToLower(C.GoString(&pci[0])), Memory: uint64(memory), handle: int32(handle)}
		for _, a := range []struct {
			which C.int // CU_DEVICE_ATTRIBUTE_...
			to    *int
		}{{16, &v.Multiprocessors}, {75, &v.Major}, {76, &v.Minor}, {97, &v.Shared}} {
			var value C.int
			if r := C.eusn_attribute(d.api, handle, a.which, &value); r != 0 {
				return nil, d.fail(fmt.Sprintf("attribute %d of device %d", a.which, i), r)
			}
			*a.to = int(value)
		}
		list[i] = v
	}
	return list, nil
}

// Context is a reference to a device's primary context and the owner of
// everything made through it.
type Context struct {
	d    *Driver
	dev  Device
	ctx  unsafe.Pointer
	made []thing
}

type thing struct {
	kind   C.int
	handle C.uint64_t
}

// Context opens a device for work.
func (d *Driver) Context(dev Device) (*Context, error) {
	c := &Context{d: d, dev: dev}
	if r := C.eusn_retain(d.api, C.int(dev.handle), &c.ctx); r != 0 {
		return nil, d.fail("open device "+dev.Name, r)
	}
	return c, nil
}

// Device returns the device of the context.
func (c *Context) Device() Device { return c.dev }

// Memory is the device's free and total memory in bytes, now.
func (c *Context) Memory() (free, total uint64, err error) {
	var f, t C.size_t
	r := C.eusn_memory(c.d.api, c.ctx, &f, &t)
	return uint64(f), uint64(t), c.d.fail("ask for free memory", r)
}

// Load compiles PTX for the device.
func (c *Context) Load(ptx string) (Module, error) {
	text := C.CString(ptx) // the driver wants a terminating zero
	defer C.free(unsafe.Pointer(text))
	var log [2048]C.char
	var m unsafe.Pointer
	if r := C.eusn_load(c.d.api, c.ctx, unsafe.Pointer(text), &m, &log[0], C.size_t(len(log))); r != 0 {
		err := c.d.fail("load kernels", r).(*Error)
		if s := C.GoString(&log[0]); s != "" {
			err.Detail += ": " + s
		}
		return 0, err
	}
	c.made = append(c.made, thing{C.EUSN_MODULE, C.uint64_t(uintptr(m))})
	return Module(uintptr(m)), nil
}

// Function finds a kernel and permits the given bytes of dynamic shared memory
// (48 KiB need no permission).
func (c *Context) Function(m Module, name string, shared int) (Function, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	if shared <= 48<<10 {
		shared = 0
	}
	var fn unsafe.Pointer
	r := C.eusn_function(c.d.api, c.ctx, handlePointer(m), text, C.int(shared), &fn)
	return Function(uintptr(fn)), c.d.fail("kernel "+name, r)
}

func (c *Context) create(op string, kind C.int, bytes int) (C.uint64_t, error) {
	var h C.uint64_t
	if r := C.eusn_create(c.d.api, c.ctx, kind, C.size_t(bytes), &h); r != 0 {
		return 0, c.d.fail(op, r)
	}
	c.made = append(c.made, thing{kind, h})
	return h, nil
}

// Alloc allocates device memory with undefined contents.
func (c *Context) Alloc(bytes int) (Pointer, error) {
	h, err := c.create(fmt.Sprintf("allocate %d bytes on the device", bytes), C.EUSN_DEVICE_MEMORY, bytes)
	return Pointer(h), err
}

// Free releases device memory early; 0 is none. Work on it must have ended.
func (c *Context) Free(p Pointer) error {
	for i, t := range c.made {
		if t.kind == C.EUSN_DEVICE_MEMORY && t.handle == C.uint64_t(p) {
			c.made = slices.Delete(c.made, i, i+1)
			return c.d.fail("free device memory", C.eusn_destroy(c.d.api, c.ctx, t.kind, t.handle))
		}
	}
	return nil
}

// Pin allocates page-locked host memory, the only kind that copies during other
// work. The memory lives until Close.
func (c *Context) Pin(bytes int) ([]byte, error) {
	h, err := c.create(fmt.Sprintf("allocate %d bytes of pinned memory", bytes), C.EUSN_PINNED_MEMORY, bytes)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(handlePointer(h)), bytes), nil
}

// NewStream makes a stream that never waits for other streams.
func (c *Context) NewStream() (Stream, error) {
	h, err := c.create("make a stream", C.EUSN_STREAM, 0)
	return Stream(h), err
}

// NewEvent makes an event.
func (c *Context) NewEvent() (Event, error) {
	h, err := c.create("make an event", C.EUSN_EVENT, 0)
	return Event(h), err
}

// Synchronize waits until a stream has nothing left to do.
func (c *Context) Synchronize(s Stream) error {
	return c.d.fail("wait for a stream", C.eusn_sync_stream(c.d.api, c.ctx, C.uint64_t(s)))
}

// WaitFor waits until a recorded event has been reached.
func (c *Context) WaitFor(e Event) error {
	return c.d.fail("wait for a batch", C.eusn_sync_event(c.d.api, c.ctx, C.uint64_t(e)))
}

// Submit queues a batch on a stream in one crossing. Submit returns before the
// work is done; pinned memory in the batch must not change until then.
func (c *Context) Submit(s Stream, b *Batch) error {
	if len(b.ops) == 0 {
		return nil
	}
	var params unsafe.Pointer
	if len(b.params) > 0 {
		params = unsafe.Pointer(&b.params[0])
	}
	r := C.eusn_submit(c.d.api, c.ctx, C.uint64_t(s), &b.ops[0], C.size_t(len(b.ops)), params, &b.done)
	if r == 0 {
		return nil
	}
	return c.d.fail(b.failing(), r)
}

// Close releases everything, also half-made and after the device was lost.
// Close returns only the first error; after a loss the driver repeats its
// error.
func (c *Context) Close() error {
	if c.ctx == nil {
		return nil
	}
	var first error
	for _, t := range slices.Backward(c.made) {
		if err := c.d.fail("free", C.eusn_destroy(c.d.api, c.ctx, t.kind, t.handle)); first == nil {
			first = err
		}
	}
	if err := c.d.fail("close device", C.eusn_release(c.d.api, C.int(c.dev.handle))); first == nil {
		first = err
	}
	c.ctx, c.made = nil, nil
	return first
}
