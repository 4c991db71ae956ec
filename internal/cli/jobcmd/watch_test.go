package jobcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
)

var late = 12.34

// report returns a report of a job with three partitions, of which one lags and one is
// stopped.
func report() *fleet.Report {
	return &fleet.Report{
		Job: "plant", Time: time.Now(), Level: fleet.Problem, Verdict: "3 partitions, 1 worker: partition 2 is stopped", First: "check its log",
		Findings:   []fleet.Finding{{Level: fleet.Problem, About: "partitions", Sentence: "partition 2 is stopped", Do: "check its log"}},
		Rates:      fleet.Rates{Over: 10, Samples: 25600, Predictions: 200},
		Lag:        fleet.Lag{Messages: 31, Behind: &late},
		Partitions: fleet.Partitions{Count: 3, Phases: map[string]int{"reading": 2, "stopped": 1}, List: []fleet.Partition{{Partition: 0, Phase: "reading", Behind: new(float64)}, {Partition: 1, Phase: "reading", Lag: 31, Behind: &late, Worker: "w1"}, {Partition: 2, Phase: "stopped", Why: "lost"}}},
		Processes:  []fleet.Process{{Role: fleet.RoleStage, Host: "edge", PID: 7, Stage: &fleet.Stage{Phases: map[string]int{"reading": 2, "stopped": 1}, Lag: 31, Classes: fleet.Counts{"healthy": 30, "a\x1b[2Jb": 10}, Rates: fleet.Rates{Over: 10, Samples: 25600}}}},
		Alarms:     fleet.Alarms{Kept: true, On: 1, Open: 1, List: []fleet.Alarm{{Rule: "rub", Key: "pump 3"}}},
		Marks:      []fleet.Mark{{Kind: fleet.MarkPromoted, Text: "readout ab answers, by anna"}},
	}
}

// The display begins with the most important finding, and shows all findings.
func TestTopText(t *testing.T) {
	lines := topText(report(), []float64{0, 50, 100}, 80)
	if !strings.HasSuffix(lines[0], "PROBLEM  plant: 3 partitions, 1 worker: partition 2 is stopped") || lines[1] != "first: check its log" {
		t.Errorf("begins with %q", lines[:2])
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"samples/s 25600   predictions/s 200   behind 12.3 s, 31 messages   ▁▄█", "partitions: 2 reading, 1 stopped\n  ..X\n", "2        stopped  unknown  0         -       lost", "1        reading  12.3 s   31        w1",
		"stage    edge  7    not ready  3           31   25600      0", "healthy", "75.0 %", "alarms: 1 on, 1 not acknowledged", `"pump 3"  not acknowledged`, "promoted  readout ab answers, by anna",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
}

// On a narrow terminal the verdict, the first step and the findings are complete: they
// wrap. Everything else may be cut.
func TestTopNarrow(t *testing.T) {
	r := report()
	r.First = "wait while it catches up; if the lag grows, start eusn-stream run on another machine with the same configuration"
	r.Findings[0].Sentence = "1 partition (2) is stopped: " + strings.Repeat("x", 50) + " and what is behind it"
	for _, columns := range []int{20, 40, 80, 200} {
		lines := topText(r, nil, columns)
		head := lines[:slices.Index(lines, "")]
		text := strings.Join(strings.Fields(strings.Join(head, " ")), " ")
		for _, want := range []string{"PROBLEM plant: " + r.Verdict, "first: " + r.First, "problem " + r.Findings[0].Sentence} {
			if !strings.Contains(text, want) {
				t.Errorf("%d columns lack %q: %q", columns, want, head)
			}
		}
		for _, line := range head {
			if n := utf8.RuneCountInString(line); n > columns && strings.Count(strings.TrimSpace(line), " ") > 0 && columns >= 24 {
				t.Errorf("%d columns: a line of %d: %q", columns, n, line)
			}
		}
	}
}

// Equal log lines of several partitions are merged, so that others are visible.
func TestUnlike(t *testing.T) {
	var all []fleet.LogMessage
	for i := range 8 {
		all = append(all, fleet.LogMessage{Level: "WARN", From: "a", Text: fmt.Sprintf("no answer to a commit subject=eusn.out.%d err=x", i)})
	}
	all = append(all, fleet.LogMessage{Level: "WARN", From: "b", Text: "no answer to a commit subject=eusn.out.1 err=x"}, fleet.LogMessage{Level: "ERROR", From: "a", Text: "partition stopped"}, fleet.LogMessage{Level: "ERROR", From: "a", Text: "=x"})
	got := unlike(all, 3)
	if len(got) != 3 || got[0].Text != all[0].Text+" (and 7 more like it)" || got[1].Text != all[8].Text || got[2].Text != "partition stopped" {
		t.Errorf("%+v", got)
	}
	if all[0].Text != "no answer to a commit subject=eusn.out.0 err=x" {
		t.Error("the report itself was changed")
	}
}

// Unknown values are not shown as known.
func TestNotKnown(t *testing.T) {
	r := report()
	r.Alarms, r.Unknown = fleet.Alarms{}, []string{"the alarms: no answer in time", "the disk: no answer in time"}
	if text := strings.Join(topText(r, nil, 80), "\n"); !strings.Contains(text, "alarms: not known") {
		t.Errorf("top has %s", text)
	}
	for _, l := range statusLines(r) {
		if (l[0] == "alarms" || l[0] == "disk") != strings.HasPrefix(l[1], "not known") {
			t.Errorf("status has %v", l)
		}
	}
}

// Without a terminal it is one look; with --json lines until the end.
func TestWatchPlain(t *testing.T) {
	var out bytes.Buffer
	a := &cli.App{Stdout: term.Cleaned{Writer: &out}, Stderr: &bytes.Buffer{}}
	looks := 0
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	look := func() (*fleet.Report, error) {
		if looks++; looks == 3 {
			stop()
		}
		return report(), nil
	}
	if err := watchStatus(ctx, a, look, time.Millisecond); err != nil || looks != 1 || strings.Count(out.String(), "PROBLEM") != 1 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%v, %d looks:\n%s", err, looks, &out)
	}
	out.Reset()
	a.JSON = true
	looks = 0
	if err := watchStatus(ctx, a, look, time.Millisecond); err != nil || looks != 3 {
		t.Errorf("%v, %d looks", err, looks)
	}
	for line := range strings.Lines(out.String()) {
		var r fleet.Report
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Job != "plant" {
			t.Errorf("%q: %v", line, err)
		}
	}
	failed := errors.New("no server")
	if err := watchStatus(t.Context(), a, func() (*fleet.Report, error) { return nil, failed }, time.Millisecond); !errors.Is(err, failed) {
		t.Errorf("%v, want the error of the first look", err)
	}
}
