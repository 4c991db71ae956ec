package plants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// plantSet is a public data set with a page.
type plantSet struct {
	page, folder string
	how          form
	small        func(t *testing.T, data string) // writes a part of the data for the gate; nil: the gate leaves the set out
	measure      func(r *rig, p page)            // notes the rows of the table
}

var sets = []plantSet{
	{"pump-bed", "skab", lineProtocol, smallSKAB, measureSKAB},
	{"turbofans", "cmapss", jsonHTTP, smallCMAPSS, measureCMAPSS},
	{"chemical-plant", "tep", jsonMQTT, smallTEP, measureTEP},
	{"bearings", "cwru", csvHTTP, nil, measureCWRU},
	{"hydraulic-rig", "hydraulic", jsonHTTP, nil, measureHydraulic},
}

// link links files of the data into a folder of the same name.
func link(t *testing.T, data string, files ...string) {
	t.Helper()
	for _, f := range files {
		target, err := filepath.EvalSymlinks(filepath.Join(data, f))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(f), 0o755)
		}
		if err == nil {
			err = os.Symlink(target, f)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func smallSKAB(t *testing.T, data string) { link(t, data, "skab/valve1/1.csv.gz") }

// smallTEP links normal operation and two faults, and writes the begin of the two faults that the page merges.
func smallTEP(t *testing.T, data string) {
	link(t, data, "tep/d00.dat.gz", "tep/d01.dat.gz", "tep/d02.dat.gz", "tep/d00_te.dat.gz", "tep/d01_te.dat.gz")
	for name, rows := range map[string]int{"d03.dat.gz": 150, "d09.dat.gz": 150, "d03_te.dat.gz": 190, "d09_te.dat.gz": 190} {
		lines := strings.SplitAfter(unzip(t, filepath.Join(data, "tep", name)), "\n")
		zipTo(t, filepath.Join("tep", name), strings.Join(lines[:rows], ""))
	}
}

// smallCMAPSS writes the first engines as the training, and the next ones, until their failure, as the test.
func smallCMAPSS(t *testing.T, data string) {
	t.Helper()
	if err := os.MkdirAll("cmapss", 0o755); err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{"train_FD001": "", "test_FD001": "", "RUL_FD001": ""}
	for line := range strings.Lines(unzip(t, filepath.Join(data, "cmapss", "train_FD001.txt.gz"))) {
		name := "train_FD001"
		switch unit, _ := strconv.Atoi(strings.Fields(line)[0]); {
		case unit > 18:
			continue
		case unit > 15:
			name = "test_FD001"
			if !strings.Contains("\n"+parts[name], fmt.Sprintf("\n%d ", unit)) {
				parts["RUL_FD001"] += "0\n"
			}
		}
		parts[name] += line
	}
	for name, text := range parts {
		zipTo(t, filepath.Join("cmapss", name+".txt.gz"), text)
	}
}

// counts sums the counts of a rule over evaluations.
type counts struct{ alarms, right, wrong, faults, found int }

func (c *counts) countAlarms(n alarm.RuleCount) {
	c.alarms, c.right, c.wrong, c.faults, c.found = c.alarms+n.Alarms, c.right+n.True, c.wrong+n.False, c.faults+n.Faults, c.found+n.Found
}

func (c *counts) text() string {
	return fmt.Sprintf("%d of %d faults, %d false", c.found, c.faults, c.wrong)
}

func measureSKAB(r *rig, p page) {
	files, _ := filepath.Glob("skab/*/*.csv.gz")
	files = slices.DeleteFunc(files, func(f string) bool { return strings.Contains(f, "anomaly-free") })
	for _, folder := range []string{"skab/valve1", "skab/valve2"} {
		if _, err := os.Stat(folder); err == nil {
			var c, unused confusion
			var n counts
			r.measureDetector(p, lineProtocol, &c, &unused, &n, "skab/valve1", folder)
			name := strings.ReplaceAll(strings.TrimPrefix(folder, "skab/"), "valve", "valve ")
			r.note(p, name+", one model: F1, false, missed", c.text())
			r.note(p, name+", one model: live alarms", n.text())
		}
	}
	var c, during confusion
	var n counts
	for _, f := range files {
		r.measureDetector(p, lineProtocol, &c, &during, &n, "skab/valve1", f)
	}
	r.note(p, "a model per experiment: F1, false, missed", c.text())
	r.note(p, "the same until the end of the fault", during.text())
	r.note(p, "a model per experiment: live alarms", n.text())
}

// measureDetector runs a page with a detector, and counts its predictions, those until the end of the last fault of a
// stream, and live alarms.
func (r *rig) measureDetector(p page, how form, c, during *confusion, n *counts, replace ...string) evaluated {
	ev := r.runPage(p, replace...).rehearsed()
	all := r.runLive(ev, how)
	r.countDetections(ev.args[1], all, c, true)
	r.countDetections(ev.args[1], all, during, false)
	n.countAlarms(ev.Alarms.Rules[0])
	return ev
}

// The limits of measureCMAPSS, in cycles: an alarm is due below the first, and early above the second.
const dueCycles, earlyCycles = 30, 60

func measureCMAPSS(r *rig, p page) {
	files, _ := filepath.Glob("cmapss/train_FD*.txt.gz")
	for _, f := range files {
		fd := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "train_"), ".txt.gz")
		ev := r.runPage(p, "FD001", fd).rehearsed()
		all := r.runLive(ev, jsonHTTP)
		r.note(p, fd+": RMSE at the last cycle", fmt.Sprintf("%.2f", ev.Last.RMSE))
		r.note(p, fd+": PHM score", fmt.Sprintf("%.0f", *ev.Last.PHM08))
		last, truth := map[string]float64{}, map[string]float64{}
		for i := range all.Predictions {
			q := &all.Predictions[i]
			last[q.ID] = q.Truth
			truth[fmt.Sprint(q.ID, " ", q.Position)] = q.Truth
		}
		alarmed, early := map[string]bool{}, 0
		for _, e := range ev.Alarms.Events {
			if e.Kind == alarm.Raised {
				alarmed[e.Key] = true
				if at := e.Time.Sub(time.Unix(0, 0)).Seconds(); truth[fmt.Sprint(e.Key, " ", int64(at+.5))] > earlyCycles {
					early++
				}
			}
		}
		due, found := 0, 0
		for id, rest := range last {
			if rest < dueCycles {
				due++
				if alarmed[id] {
					found++
				}
			}
		}
		r.note(p, fd+": live alarms", fmt.Sprintf("%d of %d engines, %d early", found, due, early))
	}
}

func measureTEP(r *rig, p page) {
	all := r.runPage(p)
	classes := all.evaluated[1]
	r.note(p, "which fault: accuracy", fmt.Sprintf("%.3f", classes.Balanced))
	healthy, faults := 0., 0.
	merged := all.evaluated[2]
	for i, row := range merged.Confusion {
		n := 0
		for _, k := range row {
			n += k
		}
		if share := float64(row[i]) / float64(max(1, n)); merged.Classes[i] == "normal" {
			healthy = share
		} else {
			faults += share / float64(len(merged.Classes)-1)
		}
	}
	r.note(p, "3, 9 merged with normal: faults, normal right", fmt.Sprintf("%.1f %%, %.1f %%", 100*faults, 100*healthy))
	ev := all.rehearsed()
	var c confusion
	r.countDetections(ev.args[1], r.runLive(ev, jsonMQTT), &c, true)
	r.note(p, "detected, false", fmt.Sprintf("%.1f %%, %.1f %%", 100*float64(c.tp)/float64(c.tp+c.fn), 100*float64(c.fp)/float64(c.fp+c.tn)))
	var n counts
	n.countAlarms(ev.Alarms.Rules[0])
	r.note(p, "live alarms", n.text())
}

func measureCWRU(r *rig, p page) {
	all := r.runPage(p)
	var report struct {
		Report struct {
			ByGroup groups.Report `json:"by_group"`
		}
	}
	if err := json.Unmarshal(all.trained[0], &report); err != nil {
		r.t.Fatal(err)
	}
	sum, n := 0., 0
	for _, g := range report.Report.ByGroup.Groups {
		if !strings.Contains(g.Group, "Normal") && !strings.Contains(g.Group, "28") {
			sum, n = sum+g.Accuracy, n+1
		}
	}
	r.note(p, "bearings of another diameter: accuracy", fmt.Sprintf("%.3f", sum/float64(n)))
	r.note(p, "bearings of another diameter: macro AUROC", fmt.Sprintf("%.3f", r.measureDiameters(p)))
	ev := all.rehearsed()
	r.note(p, "the same bearings, another load: accuracy", fmt.Sprintf("%.3f", ev.Accuracy))
	r.runLive(ev, csvHTTP)
	var c counts
	c.countAlarms(ev.Alarms.Rules[0])
	r.note(p, "the same bearings, another load: live alarms", c.text())
}

// measureDiameters returns the mean macro AUROC of 7, 14 and 21 mil, each by a model of the two others.
func (r *rig) measureDiameters(p page) (mean float64) {
	train := slices.Clone(p.commands[p.first-3])
	i := slices.Index(train, "--group")
	train = slices.Delete(train, i, i+2)
	train[1], train[slices.Index(train, "--output")+1] = "diameters.parquet", "diameters.safetensors"
	if err := os.Mkdir("diameters", 0o755); err != nil {
		r.t.Fatal(err)
	}
	for _, d := range []string{"7", "14", "21"} {
		files, _ := filepath.Glob("cwru/1797_*_" + d + "_DE12.npz")
		for _, f := range files {
			target, err := filepath.EvalSymlinks(f)
			if err == nil {
				err = os.Symlink(target, filepath.Join("diameters", filepath.Base(f)))
			}
			if err != nil {
				r.t.Fatal(err)
			}
		}
	}
	clitest.Must(r.t, "import", "diameters/*.npz", "--label", "(B|IR|OR)", "--output", train[1], "--force", "--progress", "none")
	for _, test := range []string{"7", "14", "21"} {
		others := slices.DeleteFunc([]string{"7", "14", "21"}, func(d string) bool { return d == test })
		parts, err := json.Marshal(map[string]any{"eusn_parts": 1, "rule": "_([0-9]+)_DE", "share": .33, "seed": 1, "train": others, "test": []string{test}})
		if err == nil {
			err = os.WriteFile("diameter.json", parts, 0o644)
		}
		if err != nil {
			r.t.Fatal(err)
		}
		clitest.Must(r.t, append(slices.Clone(train), "--parts", "diameter.json", "--progress", "none")...)
		var e evaluated
		clitest.Must(r.t, "evaluate", train[1], "--parts", "diameter.json", "--model", option(train, "--output"), "--progress", "none", "--json").Parse(r.t, &e)
		mean += *e.Quality.AUROC / 3
	}
	return mean
}

func measureHydraulic(r *rig, p page) {
	for i, c := range []struct{ part, worst string }{{"cooler", "3"}, {"valve", "73"}, {"pump", "2"}, {"accumulator", "90"}} {
		ev := r.runPage(p, "c2", fmt.Sprint("c", i+1), "valve: class 73", c.part+": class "+c.worst).rehearsed()
		r.note(p, c.part, fmt.Sprintf("%.3f", ev.Accuracy))
		if c.part == "valve" {
			r.runLive(ev, jsonHTTP)
			n := ev.Alarms.Rules[0]
			r.note(p, "valve: live alarms", fmt.Sprintf("%d of %d cycles, %d false", n.Rows.Active, n.Rows.Faulty, n.Rows.FalseActive))
		}
	}
}

// nabPage has the commands for a file of NAB. The training has NAB's probation.
func nabPage(probation int) page {
	lines := "eusn-stream import nab/FILE --samples ..%d --output healthy.parquet\n" +
		"eusn-stream import nab/FILE --output later.parquet\n" +
		"eusn-stream train healthy.parquet --policy window --length 48 --hop 1 --healthy-only --output nab.safetensors\n" +
		"eusn-stream evaluate later.parquet --model nab.safetensors " + rulesFlag + " 'unusual: novel 0.01, 3 of 5'"
	p := page{name: "nab"}
	for line := range strings.SplitSeq(fmt.Sprintf(lines, probation), "\n") {
		p.commands = append(p.commands, splitWords(line))
	}
	return p
}

// measureNAB scores alarms on all files of NAB with labeled windows.
func measureNAB(r *rig) {
	text, err := os.ReadFile("nab/combined_windows.json")
	if err != nil {
		r.t.Fatal(err)
	}
	var labeled map[string][][2]string
	if err := json.Unmarshal(text, &labeled); err != nil {
		r.t.Fatal(err)
	}
	files, _ := filepath.Glob("nab/*/*.csv.gz")
	points, total := 0., 0
	for _, f := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(f, "nab/"), ".gz")
		if len(labeled[name]) == 0 {
			continue
		}
		clitest.Must(r.t, "import", f, "--output", "whole.parquet", "--force", "--progress", "none")
		var times []time.Time
		r.eachStretch("whole.parquet", func(_ []string, c archive.RecordingChunk) {
			for _, at := range c.Time {
				times = append(times, time.Unix(0, at).UTC())
			}
		})
		probation := min(len(times)*15/100, 750)
		p := nabPage(probation)
		ev := r.runPage(p, "FILE", strings.TrimPrefix(f, "nab/")).rehearsed()
		r.runLive(ev, lineProtocol)
		var detections []int
		for _, e := range ev.Alarms.Events {
			if e.Kind == alarm.Raised {
				detections = append(detections, slices.IndexFunc(times, e.Time.Equal))
			}
		}
		var windows []window
		for _, w := range labeled[name] {
			from, _ := time.Parse("2006-01-02 15:04:05.000000", w[0])
			to, _ := time.Parse("2006-01-02 15:04:05.000000", w[1])
			windows = append(windows, window{from, to})
		}
		score := scoreNAB(times, detections, windows, probation)
		points, total = points+score, total+len(windows)
		r.note(p, name+": score, alarms", fmt.Sprintf("%.1f, %d", scaleNAB(score, len(windows)), len(detections)))
	}
	r.note(page{name: "nab"}, "all files: score", fmt.Sprintf("%.1f", scaleNAB(points, total)))
}
