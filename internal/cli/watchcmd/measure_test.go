package watchcmd_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// watchUntil runs watch until its output has a text.
func watchUntil(t *testing.T, text string, args ...string) clitest.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	var out bytes.Buffer
	errOut := &clitest.StopAt{Text: text, Cancel: cancel, W: new(clitest.LockedBuffer)}
	code := root.Run(ctx, append([]string{"watch", "--port", "-1", "--metrics-listen", ""}, args...), &out, errOut)
	return clitest.Result{Code: code, Out: out.String(), ErrOut: errOut.W.(*clitest.LockedBuffer).String()}
}

// measureTables learns the beginning of tables by watch, and evaluates the model on later.
func measureTables(t *testing.T, tables, later string) {
	t.Helper()
	dir := t.TempDir()
	plant := filepath.Join(dir, "plant")
	r := watchUntil(t, "saved in", tables, "--save", plant)
	if r.Code != 0 && r.Code != 130 {
		t.Fatalf("exit code %d\n%s", r.Code, r.ErrOut)
	}
	raw, err := os.ReadFile(filepath.Join(plant, "eusn-stream.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(raw), "  rules:\n")
	var kept []string
	for line := range strings.Lines(rules) {
		if !strings.Contains(line, "silent:") {
			kept = append(kept, strings.TrimSpace(line)+"\n")
		}
	}
	file := clitest.Write(t, filepath.Join(dir, "rules.yaml"), strings.Join(kept, ""))
	_, text, _ := strings.Cut(r.ErrOut, "; learning the first ")
	text, _, _ = strings.Cut(text, " ")
	learned, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("no learned time: %v\n%s", err, r.ErrOut)
	}
	if most := learnSeconds * time.Second; learned > most {
		cutTable(t, later, learned-most)
	}
	e := clitest.Must(t, "evaluate", later, "--model", filepath.Join(plant, "model.safetensors"), "--alarms", file)
	var short []string
	for line := range strings.Lines(e.Out) {
		if strings.HasPrefix(line, "novelty") || strings.Contains(line, "AUROC") || strings.Contains(line, "unlike") || strings.Contains(line, "alarms  ") {
			short = append(short, line)
		}
	}
	for line := range strings.Lines(r.ErrOut) {
		if strings.Contains(line, "not steady") || strings.Contains(line, "not enough") || strings.Contains(line, "learned") {
			short = append(short, line)
		}
	}
	t.Log(strings.Join(short, ""))
}

// cutTable deletes the rows of the first part of a table, which was learned, too.
func cutTable(t *testing.T, path string, part time.Duration) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept strings.Builder
	from := ""
	for line := range strings.Lines(string(raw)) {
		at := strings.Split(line, ",")[1]
		if begin, err := time.Parse(time.RFC3339, at); err == nil && from == "" {
			from = begin.Add(part).Format("2006-01-02T15:04:05.000Z07:00")
		}
		if at == "time" || at >= from {
			kept.WriteString(line)
		}
	}
	clitest.Write(t, path, kept.String())
}

// TestMeasurePlants measures the detectors of simulated plants: EUSN_ACCURACY=watch.
func TestMeasurePlants(t *testing.T) {
	if !parts.Accuracy("watch") {
		t.Skip("NOT CHECKED: takes minutes, EUSN_ACCURACY=watch requests it")
	}
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			tables, later := p.writeTables(t, t.TempDir(), 220+1800, 220+1200)
			measureTables(t, tables, later)
		})
	}
}

// skab returns the folder of the data set SKAB.
func skab(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "..", "shared", "datasets", "industrial", "skab")
	if _, err := os.Stat(dir); err != nil {
		parts.Absent(t, "skab", "no %s", dir)
	}
	return dir
}

// TestMeasureSKAB measures a detector of the first 220 s of each file of SKAB (anomaly-free
// and valve1) on the rest: EUSN_ACCURACY=watch.
func TestMeasureSKAB(t *testing.T) {
	if !parts.Accuracy("watch") {
		t.Skip("NOT CHECKED: takes minutes, EUSN_ACCURACY=watch requests it")
	}
	dir, tables := skab(t), t.TempDir()
	var later strings.Builder
	files, err := filepath.Glob(filepath.Join(dir, "[av]*", "*.csv.gz"))
	if err != nil || len(files) != 17 {
		t.Fatalf("%d files, %v, want 17", len(files), err)
	}
	for _, file := range files {
		lines := readLines(t, file)
		name := filepath.Base(filepath.Dir(file)) + "-" + strings.TrimSuffix(filepath.Base(file), ".csv.gz")
		columns := strings.Split(lines[0], ";")
		if later.Len() == 0 {
			later.WriteString("stream,time," + strings.Join(columns[1:9], ",") + ",label\n")
		}
		var own strings.Builder
		own.WriteString(strings.Join(columns[:9], ";") + "\n")
		for i, line := range lines[1:] {
			cells := strings.Split(line, ";")
			row := strings.Join(cells[:9], ";")
			own.WriteString(row + "\n")
			if i >= learnSeconds {
				label := "normal"
				if len(cells) > 9 && strings.HasPrefix(cells[9], "1") {
					label = "faulty"
				}
				later.WriteString(name + "," + strings.Replace(cells[0], " ", "T", 1) + "Z," + strings.Join(cells[1:9], ",") + "," + label + "\n")
			}
		}
		clitest.Write(t, filepath.Join(tables, name+".csv"), own.String())
	}
	measureTables(t, tables, clitest.Write(t, filepath.Join(t.TempDir(), "later.csv"), later.String()))
}

// readLines reads the lines of a compressed file.
func readLines(t *testing.T, path string) (lines []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(z); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

// TestMeasureLive watches plants over a broker in real time, with the default of the command, and
// reports the times to the first verdict and from the fault to the first alarm: EUSN_ACCURACY=watch.
func TestMeasureLive(t *testing.T) {
	if !parts.Accuracy("watch") {
		t.Skip("NOT CHECKED: takes minutes, EUSN_ACCURACY=watch requests it")
	}
	addr := startBroker(t)
	for i, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			var broken atomic.Bool
			prefix := fmt.Sprintf("plant%d", i)
			p.publish(t, addr, prefix, &broken)
			begin := time.Now()
			w := startWatch(t, "mqtt://"+addr+"/"+prefix+"/#", "--save", filepath.Join(t.TempDir(), "plant"))
			w.await(t, `"verdict"`, 15*time.Minute)
			verdict := time.Since(begin)
			time.Sleep(time.Minute) // healthy
			broken.Store(true)
			fault := time.Now()
			time.Sleep(4 * time.Minute)
			early, found := 0, map[string]bool{}
			first := time.Duration(0)
			for _, e := range w.end(t) {
				a, _ := e["alarm"].(map[string]any)
				if a == nil || a["event"] != "raised" || a["rule"] != "unlike-healthy" {
					continue
				}
				at := begin.Add(time.Duration(e["seconds"].(float64) * 1e9))
				key := fmt.Sprint(a["key"])
				switch {
				case at.Before(fault) || !faulty(key):
					early++
				default:
					if len(found) == 0 {
						first = at.Sub(fault)
					}
					found[key] = true
				}
			}
			t.Logf("first verdict after %.0f s; %d of %d faults found, the first after %.0f s; %d false alarms in %.1f machine-hours",
				verdict.Seconds(), len(found), (p.machines+1)/2, first.Seconds(), early, (5*time.Minute).Hours()*float64(p.machines))
		})
	}
}

// faulty reports whether a machine of a plant has a fault later.
func faulty(key string) bool {
	return strings.ContainsAny(key[len(key)-1:], "02468")
}
