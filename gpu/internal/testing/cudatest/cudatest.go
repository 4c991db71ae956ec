//go:build linux && cgo

package cudatest

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include "driver/fake.h"

int eusn_test_load(char *, uint64_t *);
void eusn_test_unload(uint64_t);
int eusn_test_function(uint64_t, char *, int *, int *, int *);
int eusn_test_launch(uint64_t, char *, uint32_t *, uint32_t *, uint32_t, void *, uint32_t);
void eusn_test_mapped(uint64_t, uint64_t);
void eusn_test_unmapped(uint64_t);
void eusn_test_written(uint64_t, uint64_t);

static int (*p_set)(const char *, long);
static long (*p_count)(const char *);
static void (*p_reset)(void);

static const char *attach(const char *path) {
  static const fake_hooks hooks_ = {
    eusn_test_load, eusn_test_unload, eusn_test_function, eusn_test_launch, eusn_test_mapped, eusn_test_unmapped, eusn_test_written,
  };
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib) return dlerror();
  void (*set_hooks)(const fake_hooks *) = dlsym(lib, "fake_set_hooks");
  p_set = dlsym(lib, "fake_set");
  p_count = dlsym(lib, "fake_count");
  p_reset = dlsym(lib, "fake_reset");
  if (!set_hooks || !p_set || !p_count || !p_reset) return "not the fake driver";
  set_hooks(&hooks_);
  return NULL;
}
static int call_set(const char *key, long value) { return p_set(key, value); }
static long call_count(const char *what) { return p_count(what); }
static void call_reset(void) { p_reset(); }
*/
import "C"

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/gpu/internal/cuda"
)

//go:embed driver
var sources embed.FS

// Build compiles the fake driver as libcuda.so.1 in dir and returns its path.
// Flags go to the compiler.
func Build(dir string, flags ...string) (string, error) {
	files, err := sources.ReadDir("driver")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "libcuda.so.1")
	args := append([]string{"-O1", "-g", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-o", out}, flags...)
	for _, f := range files {
		text, err := sources.ReadFile("driver/" + f.Name())
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, f.Name())
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return "", err
		}
		if filepath.Ext(path) == ".c" {
			args = append(args, path)
		}
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if text, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cudatest: %s: %v\n%s", compiler, err, text)
	}
	return out, nil
}

// loaded is the only fake driver of the process: a library stays loaded.
var loaded = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "eusn-fake-driver-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) // once loaded the file is not needed
	path, err := Build(dir)
	if err != nil {
		return "", err
	}
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	if why := C.attach(text); why != nil {
		return "", fmt.Errorf("cudatest: %s", C.GoString(why))
	}
	saved := cuda.Library
	cuda.Library = path
	defer func() { cuda.Library = saved }()
	if _, err := cuda.Open(); err != nil { // through the normal path, while the file exists
		return "", err
	}
	return path, nil
})

// Fake is the fake driver of one test.
type Fake struct{ t testing.TB }

// Use makes cuda.Open find the fake driver until the test ends, with the
// settings of driver/driver.c at their normal values. run executes kernels.
// Unfreed objects fail the test. Tests that call Use cannot run in parallel: a
// process has one driver.
func Use(t testing.TB, run Runner) *Fake {
	t.Helper()
	path, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	f := &Fake{t}
	saved := cuda.Library
	cuda.Library = path
	C.call_reset()
	setRunner(run)
	before := f.Count("live")
	t.Cleanup(func() {
		cuda.Library = saved
		if n := f.Count("live"); n != before {
			t.Errorf("%d things of the driver were not given back", n-before)
		}
		C.call_reset()
	})
	return f
}

// Set changes a setting.
func (f *Fake) Set(key string, value int) {
	f.t.Helper()
	text := C.CString(key)
	defer C.free(unsafe.Pointer(text))
	if C.call_set(text, C.long(value)) == 0 {
		f.t.Fatalf("cudatest: the fake driver has no setting %q", key)
	}
}

// Count reads a counter: "live" objects, "created" objects, "launches",
// operations "submitted", "waits" for them, bytes "used0" of device 0.
func (f *Fake) Count(what string) int {
	f.t.Helper()
	text := C.CString(what)
	defer C.free(unsafe.Pointer(text))
	n := int(C.call_count(text))
	if n < 0 {
		f.t.Fatalf("cudatest: the fake driver has no counter %q", what)
	}
	return n
}
