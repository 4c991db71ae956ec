//go:build linux && cgo

package cudatest

import (
	"fmt"
	"maps"
	"sync"

	"github.com/eusn-stream/eusn-stream/internal/testing/ptx"
)

// Memory is the part of a Runner that keeps device memory as host slices.
type Memory struct {
	mu sync.Mutex
	by map[uint64][]byte
}

// Map implements Runner.
func (m *Memory) Map(address uint64, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[uint64][]byte{}
	}
	m.by[address] = data
}

// Unmap implements Runner.
func (m *Memory) Unmap(address uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.by, address)
}

// Written implements Runner.
func (m *Memory) Written(uint64, int) {}

// At returns n bytes at an address, or an error if no single allocation has
// them all.
func (m *Memory) At(address uint64, n int) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for base, data := range maps.All(m.by) {
		if address >= base && address-base <= uint64(len(data)) && n <= len(data)-int(address-base) {
			return data[address-base:][:n:n], nil
		}
	}
	return nil, fmt.Errorf("cudatest: %d bytes at %#x belong to no allocation", n, address)
}

// Interpreter runs PTX on the CPU, with all checks of package ptx. Each test
// needs its own Interpreter.
func Interpreter() Runner { return new(interpreter) }

type interpreter struct {
	mu  sync.Mutex
	mem ptx.Memory
}

// parsed keeps modules: parsing ours takes longer than most tests.
var parsed sync.Map // text -> *ptx.Module

func (r *interpreter) Load(text string) (Module, error) {
	if m, ok := parsed.Load(text); ok {
		return loadedPTX{r, m.(*ptx.Module)}, nil
	}
	m, err := ptx.Parse(text)
	if err != nil {
		return nil, err
	}
	parsed.Store(text, m)
	return loadedPTX{r, m}, nil
}

func (r *interpreter) Map(address uint64, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.mem.Map(address, data); err != nil {
		panic(err) // BUG of the fake driver
	}
}

func (r *interpreter) Unmap(address uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.mem.Unmap(address) // memory from before this runner is unknown here
}

func (r *interpreter) Written(address uint64, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.mem.Written(address, bytes)
}

type loadedPTX struct {
	r *interpreter
	m *ptx.Module
}

func (l loadedPTX) Kernel(name string) (Kernel, bool) {
	k := l.m.Kernel(name)
	if k == nil {
		return Kernel{}, false
	}
	threads := k.MaxThreads
	if threads == 0 {
		threads = 1024
	}
	return Kernel{Params: k.ParamBytes, Threads: threads, StaticShared: k.StaticShared}, true
}

func (l loadedPTX) Launch(name string, grid, block [3]uint32, shared int, params []byte) error {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	return l.m.Launch(&l.r.mem, ptx.Launch{Kernel: name, Grid: grid, Block: block, Shared: shared, Params: params})
}
