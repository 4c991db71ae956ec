//go:build linux && cgo

package cuda

// #include "shim.h"
import "C"

import "unsafe"

// Batch is a list of operations for a stream, rebuilt for each call in the same
// memory.
type Batch struct {
	ops    []C.eusn_op
	params []uint64 // words, so that every parameter is aligned
	done   C.size_t // operations queued by the last Submit
}

// handlePointer converts a handle back into a pointer. The pointer refers to
// the driver's memory, never to Go's.
func handlePointer[H ~uint64](h H) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&h))
}

// Reset empties the batch.
func (b *Batch) Reset() { b.ops, b.params = b.ops[:0], b.params[:0] }

// Len is the number of operations.
func (b *Batch) Len() int { return len(b.ops) }

// Up copies pinned memory to the device.
func (b *Batch) Up(to Pointer, from []byte) {
	if len(from) > 0 {
		b.copy(C.EUSN_UP, to, from)
	}
}

// Down copies device memory to pinned memory.
func (b *Batch) Down(to []byte, from Pointer) {
	if len(to) > 0 {
		b.copy(C.EUSN_DOWN, from, to)
	}
}

func (b *Batch) copy(kind C.uint32_t, device Pointer, host []byte) {
	b.ops = append(b.ops, C.eusn_op{kind: kind, device: C.uint64_t(device), host: C.uint64_t(uintptr(unsafe.Pointer(&host[0]))), bytes: C.uint64_t(len(host))})
}

// Fill sets words of device memory.
func (b *Batch) Fill(p Pointer, value uint32, words int) {
	if words > 0 {
		b.ops = append(b.ops, C.eusn_op{kind: C.EUSN_FILL, device: C.uint64_t(p), value: C.uint32_t(value), bytes: C.uint64_t(4 * words)})
	}
}

// Wait delays the following operations until the stream of e has reached e.
func (b *Batch) Wait(e Event) {
	b.ops = append(b.ops, C.eusn_op{kind: C.EUSN_WAIT, handle: C.uint64_t(e)})
}

// Record puts e after all queued operations.
func (b *Batch) Record(e Event) {
	b.ops = append(b.ops, C.eusn_op{kind: C.EUSN_RECORD, handle: C.uint64_t(e)})
}

// Start launches a kernel whose only parameter is *params, a structure without
// Go pointers. Start copies the structure.
func Start[P any](b *Batch, l Launch, params *P) {
	at, size := len(b.params), int(unsafe.Sizeof(*params))
	for range (size + 7) / 8 {
		b.params = append(b.params, 0)
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&b.params[at])), size), unsafe.Slice((*byte)(unsafe.Pointer(params)), size))
	b.ops = append(b.ops, C.eusn_op{
		kind: C.EUSN_LAUNCH, handle: C.uint64_t(l.Function), value: C.uint32_t(8 * at),
		grid_x: C.uint32_t(l.GridX), grid_y: C.uint32_t(l.GridY), grid_z: C.uint32_t(l.GridZ), block: C.uint32_t(l.Block), shared: C.uint32_t(l.Shared),
	})
}

// failing names the operation at which the last Submit stopped.
func (b *Batch) failing() string {
	if int(b.done) >= len(b.ops) {
		return "submit"
	}
	switch b.ops[b.done].kind {
	case C.EUSN_UP:
		return "copy to the device"
	case C.EUSN_DOWN:
		return "copy from the device"
	case C.EUSN_FILL:
		return "clear device memory"
	case C.EUSN_LAUNCH:
		return "launch a kernel"
	}
	return "order a batch"
}
