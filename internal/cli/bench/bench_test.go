package bench_test

import (
	"bytes"
	"context"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

func TestBenchRefuses(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		part string
	}{
		{"--only gpu", cli.ExitUsage, "want engine, stage or messages"},
		{"--time 0s", cli.ExitUsage, "--time 0s"},
		{"--units 0", cli.ExitUsage, "--units 0: want 1 to 8192"},
		{"--threads 1,-2", cli.ExitUsage, "--threads -2"},
		{"--members 4 --inputs 3", cli.ExitUsage, "want an even number"},
		{"--bank v2", cli.ExitUsage, strings.Join(reservoir.Banks, ", ")},
		{"--bank tiny --inputs 3", cli.ExitUsage, "want an even number"},
		{"--bank tiny --units 16", cli.ExitUsage, "leave --members and --units out"},
		{"--bank tiny --members 4", cli.ExitUsage, "leave --members and --units out"},
		{"--only stage --bank tiny --inputs 2", cli.ExitUsage, "a bank of --bank"},
		{"--only messages --part speed", cli.ExitUsage, "want some of cpu, latency, backlog, half"},
		{"--only messages --rows 0", cli.ExitUsage, "--rows 0"},
		{"--only messages --units 50", cli.ExitUsage, "do not apply"},
		{"--members -1", cli.ExitUsage, "--members -1"},
		{"--only stage --units 50", cli.ExitUsage, "do not apply"},
		{"extra", cli.ExitUsage, "unexpected argument"},
		{"--engine gpu --only engine", cli.ExitUnreachable, "no NVIDIA driver was found"},
		{"--streams 1000000 --steps 1000", cli.ExitFailure, "more than 1 GiB"},
		{"--only stage --dir /nowhere/at/all", cli.ExitFailure, "--dir"},
	} {
		r := clitest.Exec(t, t.Context(), append([]string{"bench"}, strings.Fields(c.args)...)...)
		r.Want(t, c.code, c.part)
		if c.code == cli.ExitUsage && r.Out != "" {
			t.Errorf("%s: printed %q", c.args, r.Out)
		}
	}
}

func TestBenchEngine(t *testing.T) {
	kind := string(cpu.Kinds(reservoir.Spec{})[0])
	r := clitest.Must(t, "bench", "--json", "-q", "--engine", kind, "--time", "1ms", "--units", "12,20", "--inputs", "3", "--streams", "5", "--steps", "4", "--threads", "1")
	var engines []map[string]any
	peak := 0.0
	for _, m := range r.Lines(t) {
		switch m["bench"] {
		case "peak":
			peak = m["peak_gflops"].(float64)
		case "engine":
			engines = append(engines, m)
		default:
			t.Errorf("a line of %v", m)
		}
	}
	if len(engines) != 2 {
		t.Fatalf("%d rows, want one for each number of units:\n%s", len(engines), r.Out)
	}
	for i, m := range engines {
		n := []float64{12, 20}[i]
		number := func(key string) float64 {
			v, ok := m[key].(float64)
			if !ok {
				t.Errorf("%s is %v in %v", key, m[key], m)
			}
			return v
		}
		if m["engine"] != kind || number("units") != n || number("inputs") != 3 || number("streams") != 5 || number("steps") != 4 || number("threads") != 1 || number("members") != 1 {
			t.Errorf("row %v", m)
		}
		if got, want := number("gflops")*1e3, number("mstep_per_s")*2*n*(n+3); math.Abs(got-want) > 1e-6*want {
			t.Errorf("%g MFLOP/s, the rate says %g", got, want)
		}
		if kind == "generic" {
			continue // has no peak
		}
		if share := number("peak_share"); share <= 0 || peak <= 0 {
			t.Errorf("share %g of the peak, which is %g GFLOP/s", share, peak)
		}
	}
}

// A bank by its name: the time and the share of the issue bound follow from the other figures, and are in the table.
func TestBenchRecipe(t *testing.T) {
	kind := string(cpu.Kinds(reservoir.Spec{})[0])
	args := []string{"bench", "--engine", kind, "--time", "1ms", "--bank", "tiny,euler", "--inputs", "4", "--streams", "2", "--steps", "3", "--threads", "1,2"}
	var rows []map[string]any
	for _, m := range clitest.Must(t, append(args, "--json", "-q")...).Lines(t) {
		if m["bench"] == "engine" {
			rows = append(rows, m)
		}
	}
	if kind != "generic" && len(rows) != 4 {
		t.Fatalf("%d rows, want one for each bank and number of threads", len(rows))
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*b }
	for i, m := range rows {
		if rate, threads := m["mstep_per_s"].(float64), m["threads"].(float64); !near(m["core_ns_per_step"].(float64), 1e3*threads/rate) {
			t.Errorf("%v: another time than the rate says", m)
		}
		if m["recipe"] != []string{"tiny", "tiny", "euler", "euler"}[i*4/len(rows)] || m["inputs"] != 4. || m["streams"] != 2. || m["steps"] != 3. {
			t.Errorf("row %v", m)
		}
		share, has := m["issue_share"].(float64)
		if has != (m["recipe"] == "tiny" && kind != "generic") {
			t.Errorf("share of the issue bound: %v", m)
		}
		// tiny has 16 x 16 units of four multiply-adds each.
		if has && !near(share, m["peak_share"].(float64)*m["issue_operations"].(float64)/1024) {
			t.Errorf("%v: another share than that of the peak says", m)
		}
	}
	table := clitest.Must(t, append(args, "-q")...).Out
	for _, part := range []string{"ns x cores", "of issue", kind + " ", " tiny ", " euler "} {
		if !strings.Contains(table, part) {
			t.Errorf("the table lacks %q:\n%s", part, table)
		}
	}
}

// Measurements before an interruption are printed.
func TestBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errOut bytes.Buffer
	watch := &onWrite{&out, func() { time.AfterFunc(300*time.Millisecond, cancel) }} // the peaks come first
	code := root.Run(ctx, []string{"bench", "--json", "--only", "engine", "--time", "1m", "--units", "10", "--inputs", "1", "--streams", "1", "--threads", "1,1"}, watch, &errOut)
	clitest.Result{Code: code, Out: out.String(), ErrOut: errOut.String()}.Want(t, cli.ExitInterrupted, "rows measured before are printed")
	if !strings.Contains(out.String(), `"bench":"engine"`) {
		t.Errorf("no row of an engine in %s", out.String())
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	clitest.Exec(t, gone, "bench", "--only", "stage").Want(t, cli.ExitInterrupted, "nothing was measured")
}

type onWrite struct {
	*bytes.Buffer
	then func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	w.then()
	return w.Buffer.Write(p)
}

func TestBenchStage(t *testing.T) {
	dir := t.TempDir()
	r := clitest.Must(t, "bench", "--json", "-q", "--only", "stage", "--bank", "tiny", "--partitions", "2", "--time", "100ms", "--dir", dir)
	m := r.Lines(t)[0]
	if m["recipe"] != "tiny" || m["units"] != 16. {
		t.Errorf("row %v: want the bank tiny, of 16 units", m)
	}
	// Bounds catch wrong units; a busy machine does not reach the bounds.
	for key, most := range map[string]float64{
		"rows_per_s": 1e10, "bytes_per_s": 1e12, "engine_rows_per_s": 1e10, "engine_share": 1e3, "engine_time_share": 1e3,
		"paced_rows_per_s": 1e10, "p50_ms": 1e5, "p99_ms": 1e5, "latencies": 1e6,
	} {
		if v, ok := m[key].(float64); !ok || v <= 0 || v > most {
			t.Errorf("%s is %v, want more than 0, at most %g", key, m[key], most)
		}
	}
	if m["p99_ms"].(float64) < m["p50_ms"].(float64) || m["partitions"] != 2. || m["shards"] != float64(min(2, runtime.GOMAXPROCS(0))) {
		t.Errorf("row %v", m)
	}
	if left := clitest.Leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Small messages: each part has its figures, derived figures included.
func TestBenchMessages(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT CHECKED: the CPU time of a process is not read there")
	}
	r := clitest.Must(t, "bench", "--only", "messages", "--json", "-q", "--rows", "10", "--partitions", "2", "--rounds", "1", "--time", "50ms")
	var parts []string
	for _, m := range r.Lines(t) {
		parts = append(parts, m["part"].(string))
		number := func(key string) float64 {
			v, ok := m[key].(float64)
			if !ok || v <= 0 {
				t.Errorf("%s is %v in %v", key, m[key], m)
			}
			return v
		}
		if m["bench"] != "messages" || number("rows_per_message") != 10 || number("partitions") != 2 || number("rounds") != 1 || number("messages_per_s") <= 0 {
			t.Errorf("row %v", m)
		}
		switch m["part"] {
		case "cpu":
			if got, want := number("ratio"), number("plain_cpu_us")/number("cpu_us"); math.Abs(got-want) > 1e-9*want {
				t.Errorf("ratio %g, the times say %g", got, want)
			}
			if c := number("commits_per_message"); c > 1.1 {
				t.Errorf("%g commits a message", c)
			}
		case "backlog":
			number("ratio")
		default:
			if number("p50_ms") > number("p99_ms") || number("p99_ms") > number("max_ms") || number("plain_p50_ms") > number("plain_p99_ms") {
				t.Errorf("latencies of %v", m)
			}
		}
	}
	if got := strings.Join(parts, " "); got != "cpu half latency latency backlog" {
		t.Errorf("parts %s", got)
	}
}
