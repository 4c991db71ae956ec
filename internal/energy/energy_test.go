package energy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// makePowercap makes a fake of Linux's folder: zone -> name, counter, limit.
func makePowercap(t *testing.T, zones map[string][3]string) string {
	t.Helper()
	root := t.TempDir()
	for dir, v := range zones {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for i, file := range []string{"name", "energy_uj", "max_energy_range_uj"} {
			writeValue(t, filepath.Join(root, dir, file), v[i])
		}
	}
	return root
}

func writeValue(t *testing.T, path string, v any) {
	t.Helper()
	if err := os.WriteFile(path, []byte(fmt.Sprintln(v)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// makeServer makes the folder of a machine with two packages.
func makeServer(t *testing.T) string {
	return makePowercap(t, map[string][3]string{
		"intel-rapl":        {"", "", ""},
		"intel-rapl:0":      {"package-0", "1000000", "262143328850"},
		"intel-rapl:0:0":    {"core", "5", "262143328850"},
		"intel-rapl:0:1":    {"dram", "7", "65712999613"},
		"intel-rapl:1":      {"package-1", "262143000000", "262143328850"},
		"intel-rapl:2":      {"psys", "9", "262143328850"},
		"intel-rapl-mmio:0": {"package-0", "11", "262143328850"},
		"dtpm":              {"package-9", "13", "262143328850"},
	})
}

func TestRAPL(t *testing.T) {
	root := makeServer(t)
	r, err := OpenRAPL(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Source(); got != "RAPL package-0, package-1" {
		t.Errorf("source %q", got)
	}
	for dir := range map[string]bool{"intel-rapl:0:0": true, "intel-rapl:0:1": true, "intel-rapl:2": true, "intel-rapl-mmio:0": true} {
		writeValue(t, filepath.Join(root, dir, "energy_uj"), 900e6) // all zones count, or none
	}
	writeValue(t, filepath.Join(root, "intel-rapl:0/energy_uj"), 3_500_000)
	writeValue(t, filepath.Join(root, "intel-rapl:1/energy_uj"), 671_150) // an overflow: .32885 J to the end, .67115 J after it
	for range 2 {
		if j, err := r.Joules(); err != nil || math.Abs(j-3.5) > 1e-9 {
			t.Errorf("%v J, %v, want 2.5 + 1", j, err)
		}
	}
	writeValue(t, filepath.Join(root, "intel-rapl:0/energy_uj"), 4_000_000)
	if j, err := r.Joules(); err != nil || math.Abs(j-4) > 1e-9 {
		t.Errorf("%v J, %v, want 4", j, err)
	}
}

func TestRAPLRefuses(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"", "invalid syntax"},
		{"many", "invalid syntax"},
		{"-1", "invalid syntax"},
		{"99999999999999999999", "out of range"},
		{"262143328851", "beyond the counter's end"},
		{"100000000000", "set back or is none"}, // 100 kJ at once
		{"999999", "set back or is none"},       // less than before: an overflow would be 262 kJ
	} {
		root := makeServer(t)
		r, err := OpenRAPL(root)
		if err != nil {
			t.Fatal(err)
		}
		writeValue(t, filepath.Join(root, "intel-rapl:0/energy_uj"), c.text)
		if _, err := r.Joules(); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "intel-rapl:0/energy_uj") {
			t.Errorf("%q: %v, want %q and the file", c.text, err, c.says)
		}
	}
	root := makeServer(t)
	r, err := OpenRAPL(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(root, "intel-rapl:1")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Joules(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a package that went away: %v", err)
	}
	for name, c := range map[string]struct{ root, says string }{
		"no folder":      {filepath.Join(root, "none"), "no RAPL counter"},
		"psys alone":     {makePowercap(t, map[string][3]string{"intel-rapl:0": {"psys", "1", "2"}}), "no RAPL counter"},
		"no end":         {makePowercap(t, map[string][3]string{"intel-rapl:0": {"package-0", "1", ""}}), "max_energy_range_uj"},
		"beyond its end": {makePowercap(t, map[string][3]string{"intel-rapl:0": {"package-0", "3", "2"}}), "beyond"},
	} {
		if _, err := OpenRAPL(c.root); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// Linux permits only root to read the counters: the error has the remedy. Root may read
// everything, so the test makes the refusal.
func TestDeniedSaysWhatToDo(t *testing.T) {
	err := explainDenied(&fs.PathError{Op: "open", Path: "/sys/class/powercap/intel-rapl:0/energy_uj", Err: fs.ErrPermission}, "/sys/class/powercap")
	for _, want := range []string{"energy_uj", "permission denied", "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// fakeMeter has a power set by the test. Accounts read it concurrently.
type fakeMeter struct {
	mu     sync.Mutex
	since  time.Time
	watts  float64
	joules float64
	err    error
	reads  int
}

func (m *fakeMeter) Source() string { return "fake" }
func (m *fakeMeter) Joules() (float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	m.joules += m.watts * time.Since(m.since).Seconds()
	m.since = time.Now()
	return m.joules, m.err
}

// update changes the meter after counting up to now.
func (m *fakeMeter) update(change func()) {
	_, _ = m.Joules()
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// Parts add up to the total, whichever overlap, and power at rest is subtracted once.
func TestAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &fakeMeter{since: time.Now(), watts: 10}
		cpu, err := NewAccount(m)
		if err != nil {
			t.Fatal(err)
		}
		all := Accounts{CPU: cpu}
		idle, none := all.MeasureIdle(t.Context(), 5*time.Second)
		if none != nil || idle == nil || *idle != (Idle{"fake", 10, 5}) {
			t.Fatalf("idle %+v, %+v", idle, none)
		}
		m.update(func() { m.watts = 100 })
		a := all.Start()
		time.Sleep(36 * time.Second) // 3600 J for a
		b := all.Start()
		time.Sleep(72 * time.Second) // 7200 J, half each
		used := a.End()
		time.Sleep(18 * time.Second) // 1800 J for b
		second := b.End()
		time.Sleep(time.Hour) // outside any account
		want := []Used{{CPU: &Amount{2, 1.8}}, {CPU: &Amount{1.5, 1.35}}}
		for i, got := range []Used{used, second} {
			if got.GPU != nil || got.CPU == nil || math.Abs(got.CPU.Gross-want[i].CPU.Gross) > 1e-9 || math.Abs(got.CPU.AboveIdle-want[i].CPU.AboveIdle) > 1e-9 {
				t.Errorf("part %d used %+v, want %+v", i, got.CPU, want[i].CPU)
			}
		}
		m.update(func() {
			if m.reads < 3600 {
				t.Errorf("the meter was read %d times in more than an hour: its counter may have gone round", m.reads)
			}
		})

		c := all.Start()
		m.update(func() { m.err = errors.New("gone") })
		time.Sleep(3 * time.Second)
		m.update(func() { m.err = nil })
		if got := c.End(); got.CPU != nil || cpu.Err() == nil {
			t.Errorf("measured %+v with a meter that failed, %v", got.CPU, cpu.Err())
		}
		if got := all.Start().End(); got.CPU != nil {
			t.Errorf("measured %+v after the meter failed", got.CPU)
		}
		cpu.Close()
	})
}

func TestAccountOfACounterThatGoesBack(t *testing.T) {
	for _, j := range []float64{-1, math.NaN()} {
		m := &fakeMeter{since: time.Now()}
		a, err := NewAccount(m)
		if err != nil {
			t.Fatal(err)
		}
		s := a.startSpan()
		m.update(func() { m.joules = j })
		if got := a.endSpan(s); got != nil || a.Err() == nil {
			t.Errorf("%v J: %+v, %v", j, got, a.Err())
		}
		a.Close()
	}
}

func TestNothingMeasured(t *testing.T) {
	var none Accounts
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if cpu, gpu := none.MeasureIdle(ctx, time.Hour); cpu != nil || gpu != nil {
		t.Error("idle power of nothing")
	}
	if got := none.Start().End(); got != (Used{}) {
		t.Errorf("%+v", got)
	}
	none.CPU.Close()
	if none.CPU.Err() != nil {
		t.Error("an error of nothing")
	}
	synctest.Test(t, func(t *testing.T) {
		a, err := NewAccount(&fakeMeter{since: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if cpu, _ := (Accounts{CPU: a}).MeasureIdle(ctx, time.Hour); cpu != nil {
			t.Errorf("idle power %+v, though interrupted", cpu)
		}
	})
}

func TestSum(t *testing.T) {
	part := Used{CPU: &Amount{1, -.5}, GPU: &Amount{0, 0}}
	two := Used{CPU: &Amount{2, 3}, GPU: &Amount{4, 1}}
	if s := Sum([]Used{part, two}); *s.CPU != (Amount{3, 2.5}) || *s.GPU != (Amount{4, 1}) {
		t.Errorf("%+v, %+v", s.CPU, s.GPU)
	}
	if s := Sum([]Used{part, part}); s.GPU != nil {
		t.Errorf("a counter that never moved gave %+v", s.GPU)
	}
	if s := Sum([]Used{part, {GPU: &Amount{1, 1}}}); s.CPU != nil || *s.GPU != (Amount{1, 1}) {
		t.Errorf("%+v, %+v, want the sum of an unknown part unknown", s.CPU, s.GPU)
	}
	if s := Sum(nil); s != (Used{}) {
		t.Errorf("of nothing: %+v", s)
	}
	if o := two.Over(2); *o.CPU != (Amount{1, 1.5}) || (Used{}).Over(3) != (Used{}) {
		t.Errorf("%+v", o)
	}
}
