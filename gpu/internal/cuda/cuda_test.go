//go:build linux && cgo

package cuda_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/gpu/internal/cuda"
	"github.com/eusn-stream/eusn-stream/gpu/internal/testing/cudatest"
)

// adder is a device with one kernel: it adds a number to n words.
type adder struct{ *cudatest.Memory }

type addArgs struct {
	At    uint64
	N     uint32
	Value uint32
}

func (a adder) Load(ptx string) (cudatest.Module, error) {
	if ptx != "adder" {
		return nil, errors.New("not PTX")
	}
	return a, nil
}

func (adder) Kernel(name string) (cudatest.Kernel, bool) {
	return cudatest.Kernel{Params: 16, Threads: 256}, name == "add"
}

func (a adder) Launch(name string, grid, block [3]uint32, shared int, params []byte) error {
	at, n, v := binary.LittleEndian.Uint64(params), binary.LittleEndian.Uint32(params[8:]), binary.LittleEndian.Uint32(params[12:])
	b, err := a.At(at, int(4*n))
	for ; len(b) > 0; b = b[4:] {
		binary.LittleEndian.PutUint32(b, binary.LittleEndian.Uint32(b)+v)
	}
	return err
}

// bench is an opened device with a stream, a kernel, and some memory.
type bench struct {
	c       *cuda.Context
	s       cuda.Stream
	add     cuda.Function
	dev     cuda.Pointer
	in, out []byte
}

func open() (*cuda.Context, error) {
	d, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	list, err := d.Devices()
	if err != nil {
		return nil, err
	}
	return d.Context(list[0])
}

func setUp() (b *bench, err error) {
	b = new(bench)
	if b.c, err = open(); err != nil {
		return nil, err
	}
	c := b.c
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	m, err := b.c.Load("adder")
	if err != nil {
		return nil, err
	}
	if b.add, err = b.c.Function(m, "add", 100<<10); err != nil {
		return nil, err
	}
	if b.s, err = b.c.NewStream(); err != nil {
		return nil, err
	}
	if b.dev, err = b.c.Alloc(64); err != nil {
		return nil, err
	}
	if b.in, err = b.c.Pin(64); err != nil {
		return nil, err
	}
	b.out, err = b.c.Pin(64)
	return b, err
}

func (b *bench) round(value uint32) *cuda.Batch {
	batch := new(cuda.Batch)
	batch.Up(b.dev, b.in)
	cuda.Start(batch, cuda.Launch{Function: b.add, GridX: 1, GridY: 1, GridZ: 1, Block: 32, Shared: 90 << 10}, &addArgs{uint64(b.dev), 16, value})
	batch.Down(b.out, b.dev)
	return batch
}

func TestBatch(t *testing.T) {
	cudatest.Use(t, adder{new(cudatest.Memory)})
	b, err := setUp()
	if err != nil {
		t.Fatal(err)
	}
	defer b.c.Close()
	for i := range 16 {
		binary.LittleEndian.PutUint32(b.in[4*i:], uint32(i))
	}
	batch := b.round(7)
	if err := b.c.Submit(b.s, batch); err != nil {
		t.Fatal(err)
	}
	if binary.LittleEndian.Uint32(b.out) == 7 {
		t.Error("the work was done before anybody waited: this driver would hide a missing wait")
	}
	if err := b.c.Synchronize(b.s); err != nil {
		t.Fatal(err)
	}
	for i := range 16 {
		if got := binary.LittleEndian.Uint32(b.out[4*i:]); got != uint32(i)+7 {
			t.Errorf("word %d is %d, want %d", i, got, i+7)
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		batch.Reset()
		batch.Up(b.dev, b.in)
		cuda.Start(batch, cuda.Launch{Function: b.add, GridX: 1, GridY: 1, GridZ: 1, Block: 32}, &addArgs{uint64(b.dev), 16, 1})
		batch.Down(b.out, b.dev)
		if b.c.Submit(b.s, batch) != nil {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("a batch allocates %v times, want 0", n)
	}
}

// TestHostStaysOut: the fake finds a host that touches device memory, before and after
// work there, on the thread of the work and on another.
func TestHostStaysOut(t *testing.T) {
	cudatest.Use(t, adder{new(cudatest.Memory)})
	b, err := setUp()
	if err != nil {
		t.Fatal(err)
	}
	defer b.c.Close()
	touched := func() (ok bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { ok = recover() == nil }()
		address := uintptr(b.dev)
		runtime.KeepAlive(**(**byte)(unsafe.Pointer(&address))) // the read is not optimized away
		return true
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, when := range []string{"before", "after"} {
		if touched() {
			t.Errorf("%s work: the host read device memory", when)
		}
		elsewhere := make(chan bool)
		go func() { elsewhere <- touched() }()
		if <-elsewhere {
			t.Errorf("%s work: another thread read device memory", when)
		}
		if err := b.c.Submit(b.s, b.round(1)); err != nil {
			t.Fatal(err)
		}
		if err := b.c.Synchronize(b.s); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEvents: a stream that waits for an event of another sees its result.
func TestEvents(t *testing.T) {
	cudatest.Use(t, adder{new(cudatest.Memory)})
	b, err := setUp()
	if err != nil {
		t.Fatal(err)
	}
	defer b.c.Close()
	other, err := b.c.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	e, err := b.c.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	clear(b.in)
	first := b.round(5)
	first.Record(e)
	second := new(cuda.Batch)
	second.Wait(e)
	second.Fill(b.dev+4, 9, 2)
	second.Down(b.out, b.dev)
	if err := errors.Join(b.c.Submit(b.s, first), b.c.Submit(other, second), b.c.Synchronize(other), b.c.WaitFor(e)); err != nil {
		t.Fatal(err)
	}
	if got := [3]byte{b.out[0], b.out[4], b.out[12]}; got != [3]byte{5, 9, 5} {
		t.Errorf("words 0, 1, 3 are %d, want 5, 9, 5", got)
	}
}

// TestThreads uses a context from new threads.
func TestThreads(t *testing.T) {
	cudatest.Use(t, adder{new(cudatest.Memory)})
	b, err := setUp()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := func(f func() error) {
		t.Helper()
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			done <- f()
		}()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	elsewhere(func() error { return b.c.Submit(b.s, b.round(1)) })
	elsewhere(func() error { return b.c.Synchronize(b.s) })
	elsewhere(func() error { _, _, err := b.c.Memory(); return err })
	elsewhere(func() error { p, err := b.c.Alloc(8); return errors.Join(err, b.c.Free(p)) })
	elsewhere(func() error {
		m, err := b.c.Load("adder")
		_, f := b.c.Function(m, "add", 0)
		return errors.Join(err, f)
	})
	elsewhere(b.c.Close)
}

func TestErrors(t *testing.T) {
	f := cudatest.Use(t, adder{new(cudatest.Memory)})
	kind := func(name string, err error, want cuda.Kind, words string) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), words) {
			t.Errorf("%s: error %v, want kind %q and words %q", name, err, want, words)
		}
	}
	fake := cuda.Library
	cuda.Library = "/nonexistent/libcuda.so.1"
	_, err := cuda.Open()
	kind("no library", err, cuda.NoDriver, "install")
	cuda.Library = fake

	f.Set("driver", 10020)
	_, err = cuda.Open()
	kind("old driver", err, cuda.OldDriver, "CUDA 10.2, want 11.0")
	f.Set("driver", 12040)
	f.Set("devices", 0)
	_, err = cuda.Open()
	kind("no device", err, cuda.NoDevice, "no usable NVIDIA GPU")
	f.Set("devices", 1)

	b, err := setUp()
	if err != nil {
		t.Fatal(err)
	}
	defer b.c.Close()
	_, err = b.c.Load("nonsense")
	kind("bad PTX", err, cuda.Failed, "load kernels")
	m, _ := b.c.Load("adder")
	_, err = b.c.Function(m, "subtract", 0)
	kind("no kernel", err, cuda.Failed, "subtract")
	_, err = b.c.Alloc(2 << 30)
	kind("too much", err, cuda.OutOfMemory, "2147483648 bytes")

	batch := new(cuda.Batch)
	batch.Up(b.dev, make([]byte, 64))
	kind("pageable memory", b.c.Submit(b.s, batch), cuda.Failed, "copy to the device")
	batch.Reset()
	batch.Down(b.out, b.dev+4)
	kind("beyond the end", b.c.Submit(b.s, batch), cuda.Failed, "copy from the device")
	batch.Reset()
	cuda.Start(batch, cuda.Launch{Function: b.add, GridX: 1, GridY: 1, GridZ: 1, Block: 512}, &addArgs{})
	kind("too many threads", b.c.Submit(b.s, batch), cuda.Failed, "launch a kernel")
}

// TestSticky: after a failed kernel every call fails, and Close still frees
// everything.
func TestSticky(t *testing.T) {
	f := cudatest.Use(t, adder{new(cudatest.Memory)})
	b, err := setUp()
	if err != nil {
		t.Fatal(err)
	}
	f.Set("fail_launch", 1)
	if err := b.c.Submit(b.s, b.round(1)); err != nil {
		t.Fatal(err)
	}
	if err := b.c.Synchronize(b.s); !errors.Is(err, cuda.Lost) || !strings.Contains(err.Error(), "error 719: CUDA_ERROR_LAUNCH_FAILED, unspecified launch failure") {
		t.Errorf("error %v, want a lost device, 719", err)
	}
	if _, err := b.c.Alloc(4); !errors.Is(err, cuda.Lost) {
		t.Errorf("allocating afterwards: %v, want Lost", err)
	}
	if err := b.c.Close(); !errors.Is(err, cuda.Lost) {
		t.Errorf("closing: %v, want Lost", err)
	}
	b, err = setUp()
	if err != nil {
		t.Fatalf("opening the device again: %v", err)
	}
	if err := b.c.Close(); err != nil {
		t.Error(err)
	}
}

// TestOutOfMemoryEverywhere fails every allocation once. Nothing may leak.
func TestOutOfMemoryEverywhere(t *testing.T) {
	f := cudatest.Use(t, adder{new(cudatest.Memory)})
	for k := 1; ; k++ {
		f.Set("oom_at", k+f.Count("created"))
		b, err := setUp()
		if err == nil {
			b.c.Close()
			if k < 6 {
				t.Errorf("only %d allocations could fail, want at least 6", k-1)
			}
			return
		}
		if !errors.Is(err, cuda.OutOfMemory) {
			t.Errorf("allocation %d: %v, want out of memory", k, err)
		}
	}
}

// TestMissingFunction: a library without a required function is an old driver.
func TestMissingFunction(t *testing.T) {
	path, err := cudatest.Build(t.TempDir(), "-DcuDevicePrimaryCtxRelease_v2=cuDevicePrimaryCtxRelease")
	if err != nil {
		t.Fatal(err)
	}
	saved := cuda.Library
	defer func() { cuda.Library = saved }()
	cuda.Library = path
	if _, err := cuda.Open(); !errors.Is(err, cuda.OldDriver) || !strings.Contains(err.Error(), "cuDevicePrimaryCtxRelease_v2") {
		t.Errorf("error %v, want an old driver that lacks cuDevicePrimaryCtxRelease_v2", err)
	}
}

// TestReal opens the machine's own driver.
func TestReal(t *testing.T) {
	d, err := cuda.Open()
	if err != nil {
		if os.Getenv("EUSN_REAL_GPU") != "" {
			t.Fatal(err)
		}
		t.Skipf("NOT CHECKED: no GPU here: %v", err)
	}
	list, err := d.Devices()
	t.Logf("CUDA %s, devices %+v", d.Version(), list)
	if err != nil {
		t.Fatal(err)
	}
}
