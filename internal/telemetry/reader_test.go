//go:build linux && cgo && !nonvml && (amd64 || arm64)

package telemetry

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// useFake makes Open find the library of testdata.
func useFake(t *testing.T, flags ...string) {
	t.Helper()
	if _, err := os.ReadFile("testdata/nvml.c"); err != nil { // makes the test cache depend on the file
		t.Fatal(err)
	}
	lib := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append([]string{"-shared", "-fPIC", "-o", lib, "testdata/nvml.c"}, flags...)
	if output, err := exec.Command(cmp.Or(os.Getenv("CC"), "cc"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	saved := Library
	Library = lib
	t.Cleanup(func() { Library = saved })
}

func TestRead(t *testing.T) {
	useFake(t)
	r, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	want := []Reading{
		{Index: 0, UUID: "GPU-0", Name: "Fake GPU 0", PCI: "0000:1b:00.0", Energy: 6.5, Power: 98.5, MemoryUsed: 600, MemoryTotal: 1000, Utilization: .75, MemoryBusy: .2, Temperature: 41},
		{Index: 1, UUID: "GPU-1", Name: "Fake GPU 1", PCI: "0000:1c:00.0", MemoryUsed: 600, MemoryTotal: 1000, Utilization: .75, MemoryBusy: .2, Temperature: 41,
			Missing: []string{"energy_j", "power_w"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v, want\n%+v", got, want)
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 100 {
				if _, err := r.Read(); err != nil && !errors.Is(err, errClosed) {
					t.Error(err)
				}
			}
		})
	}
	if err := r.Close(); err != nil { // during the reading
		t.Error(err)
	}
	readers.Wait()
	if _, err := r.Read(); !errors.Is(err, errClosed) {
		t.Errorf("reading after Close: %v", err)
	}
}

func TestUnavailable(t *testing.T) {
	check := func(words ...string) {
		t.Helper()
		r, err := Open()
		if r != nil || !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%v, %v: want ErrUnavailable", r, err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q lacks %q", err, w)
			}
		}
	}
	saved := Library
	Library = "/nonexistent/libnvidia-ml.so.1"
	check("/nonexistent/libnvidia-ml.so.1")
	Library = saved
	useFake(t)
	t.Setenv("EUSN_FAKE_NVML_FAIL", "1")
	check("Driver Not Loaded", "error 9")
	useFake(t, "-DOLD")
	check("nvmlErrorString", "too old")
}

func TestLostDevice(t *testing.T) {
	useFake(t)
	r, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	t.Setenv("EUSN_FAKE_NVML_LOST", "0")
	got, err := r.Read()
	if err == nil || !strings.Contains(err.Error(), "device 0: GPU is lost (error 15)") {
		t.Errorf("reading a lost device: %v", err)
	}
	if len(got) != 1 || got[0].Index != 1 || got[0].Name != "Fake GPU 1" {
		t.Errorf("next to a lost device: %+v, want device 1 alone", got)
	}
}
