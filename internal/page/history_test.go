package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// TestClockSetBack: a clock that is set back removes only the points after its new time.
func TestClockSetBack(t *testing.T) {
	r := newRing(1, 100)
	for i := range int64(150) {
		r.addPoint(Point{Time: 1000 + i, Rows: float64(i), Measured: 1})
	}
	r.addPoint(Point{Time: 1139, Rows: -1, Measured: 1}) // by ten seconds
	s := r.buildSeries()
	if n := len(s.Rows); s.End != 1139 || *s.Rows[n-1] != -1 || s.Rows[n-2] == nil || *s.Rows[n-2] != 138 {
		t.Errorf("after ten seconds back: %d values to %d", n, s.End)
	}
	known := 0
	for _, v := range s.Rows {
		if v != nil {
			known++
		}
	}
	if known != 90 { // 1050 to 1138, and the new point
		t.Errorf("%d values are left, want 90", known)
	}
	r.addPoint(Point{Time: 500, Measured: 1}) // by more than the stored time
	if s := r.buildSeries(); s.End != 500 || len(s.Rows) > 1 && s.Rows[len(s.Rows)-2] != nil {
		t.Errorf("after ten minutes back: %d values to %d", len(s.Rows), s.End)
	}
}

// TestHistory: the rings store their maximum number of points, and mark missing data.
func TestHistory(t *testing.T) {
	h := newHistory()
	minutes := 0
	const begin = 1_000_020 // 1,000,020 is a whole minute
	for i := range int64(2000) {
		if i == 1990 { // the machine slept for three seconds
			continue
		}
		p := Point{Time: begin + i, Rows: float64(i), Lag: i % 7, Measured: 1}
		if over := h.addPoint(p); over != nil {
			minutes++
			if over.Measured < 59 && over.Time != begin || over.Lag < 0 || over.Lag > 6 {
				t.Errorf("a minute of %+v", over)
			}
		}
	}
	s := h.seconds.buildSeries()
	if s.Step != 1 || s.End != begin+1999 || len(s.Rows) != keptSeconds || *s.Rows[keptSeconds-1] != 1999 || *s.Rows[0] != 2000-keptSeconds {
		t.Errorf("seconds: %d values to %d", len(s.Rows), s.End)
	}
	if at := keptSeconds - 10; s.Rows[at] != nil || s.Rows[at+1] == nil {
		t.Errorf("the second that nobody measured has %v", s.Rows[at])
	}
	m := h.minutes.buildSeries()
	if minutes != 34 || len(m.Rows) != minutes || m.Step != 60 {
		t.Errorf("%d minutes, %d in the history, want 34", minutes, len(m.Rows))
	}
	// The mean of a whole minute: its seconds are 1 to 60 after its start.
	if got, want := *m.Rows[1], (1.+60)/2; got != want {
		t.Errorf("a minute's mean %v, want %v", got, want)
	}
	if *m.Lag[1] != 6 {
		t.Errorf("a minute's lag %v, want the most, 6", *m.Lag[1])
	}
}

// TestMix: now is compared with yesterday at this time, or with the start if there is no yesterday.
func TestMix(t *testing.T) {
	var m mix
	counts := map[string]uint64{"a": 0, "b": 0}
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	share := func(name string) Share {
		for _, r := range m.summarize().Rows {
			if r.Name == name {
				return r
			}
		}
		return Share{}
	}
	m.addCounts(at, counts)
	for i := range 27 * 60 { // minutes; the first two hours a, then both, the last hour only b
		if i < 120 || i < 26*60 && i%2 == 0 {
			counts["a"] += 10
		} else {
			counts["b"] += 10
		}
		at = at.Add(time.Minute)
		m.addCounts(at, counts)
		if got := m.summarize().Before; i < 24*60 && got != "beginning" {
			t.Fatalf("after %d minutes: compared with %s", i, got)
		}
	}
	look := m.summarize()
	if look.Before != "yesterday" || look.NowSeconds != 15*60 || look.BeforeSeconds != 2*3600 {
		t.Fatalf("%+v", look)
	}
	// Yesterday at 15:00 is 14:00 to 16:00: minutes 120 to 240, with equal numbers of both.
	if a, b := share("a"), share("b"); a.Now != 0 || b.Now != 150 || a.Before != 600 || b.Before != 600 {
		t.Errorf("a %+v, b %+v", a, b)
	}
	if len(m.minutes) > mixMinutes+1 || len(m.hours) > mixHours+1 {
		t.Errorf("%d minutes and %d hours are kept", len(m.minutes), len(m.hours))
	}
	// Another stage restarts counting, with more other classes than are counted separately.
	fresh := map[string]uint64{}
	for i := range 200 {
		fresh[fmt.Sprintf("c%03d", i)] = 1
	}
	m.addCounts(at.Add(time.Second), map[string]uint64{"a": 1})
	m.addCounts(at.Add(2*time.Second), fresh)
	sum := uint64(0)
	look = m.summarize()
	for _, r := range look.Rows {
		sum += r.Before
	}
	if len(look.Rows) > mostNames+1 || !slices.ContainsFunc(look.Rows, func(r Share) bool { return r.Name == others }) {
		t.Errorf("%d names: %+v", len(look.Rows), look.Rows)
	}
}

// TestMarksOfManyAlarms: a hundred active alarms do not displace the marks of promotions and
// restarts, and a second report with the same alarms changes nothing.
func TestMarksOfManyAlarms(t *testing.T) {
	p := new(Page)
	at := time.Unix(1_700_000_000, 0)
	r := &fleet.Report{Marks: []fleet.Mark{{Time: at, Kind: fleet.MarkPromoted, Text: "readout b answers"}}}
	for i := range fleet.MostAlarms { // newest first
		r.Alarms.List = append(r.Alarms.List, fleet.Alarm{Rule: "hot", Key: fmt.Sprint(i), Since: at.Add(-time.Duration(i) * time.Second)})
	}
	p.setReport(r, nil)
	first := slices.Clone(p.worker.marks.all)
	p.setReport(r, nil)
	if !slices.Equal(p.worker.marks.all, first) || len(first) != alarmMarks+1 || first[0].Kind != "promotion" || first[alarmMarks].Text != "alarm hot of 0" {
		t.Errorf("%d marks, then %d: first %+v, last %+v", len(first), len(p.worker.marks.all), first[0], first[len(first)-1])
	}
	r.Alarms.List = slices.Insert(r.Alarms.List, 0, fleet.Alarm{Rule: "hot", Key: "new", Since: at.Add(time.Second)})
	p.setReport(r, nil)
	if all := p.worker.marks.all; len(all) != alarmMarks+1 || all[0].Kind != "promotion" || all[alarmMarks].Text != "alarm hot of new" {
		t.Errorf("%d marks: first %+v, last %+v", len(all), all[0], all[len(all)-1])
	}
	var m marks
	for i := range 3 * keptMarks {
		m.addMark(Mark{Kind: "claim", Text: fmt.Sprint(i)})
	}
	if len(m.all) != keptMarks || m.all[0].Text != fmt.Sprint(2*keptMarks) {
		t.Errorf("%d marks, first %+v", len(m.all), m.all[0])
	}
}

// TestVerdict: each state of a worker has a sentence that starts with the most important fact.
func TestVerdict(t *testing.T) {
	now := time.Now()
	good := func(change func(*pipeline.Status, *time.Time)) (*pipeline.Status, time.Time) {
		s := &pipeline.Status{Running: true, Connected: true, Renewed: now, Lease: time.Minute}
		for i := range 64 {
			s.Partitions = append(s.Partitions, pipeline.PartitionHealth{Partition: i, Share: true, Phase: pipeline.Reading, Epoch: 1})
		}
		at := now.Add(-400 * time.Millisecond)
		change(s, &at)
		return s, at
	}
	for _, c := range []struct {
		level, text string
		behind      time.Duration
		change      func(*pipeline.Status, *time.Time)
	}{
		{"good", "64 partitions, up to date: last sample answered 0.4 s ago", 0, func(*pipeline.Status, *time.Time) {}},
		{"good", "64 partitions, up to date: no sample has arrived yet", 0, func(_ *pipeline.Status, at *time.Time) { *at = time.Time{} }},
		{"attention", "64 partitions, 12 s behind: 3,400 messages wait", 12 * time.Second, func(*pipeline.Status, *time.Time) {}},
		{"attention", "63 of 64 partitions are read, the others get ready", 0, func(s *pipeline.Status, _ *time.Time) { s.Partitions[3].Phase = pipeline.Replaying }},
		{"bad", "63 of 64 partitions work, the others do not", 0, func(s *pipeline.Status, _ *time.Time) { s.Partitions[3].Phase = pipeline.Stopped }},
		{"bad", "63 of 64 partitions work, the others do not", 0, func(s *pipeline.Status, _ *time.Time) { s.Partitions[3].Waiting = "full" }},
		{"bad", "The NATS server cannot be reached: nothing is answered", 0, func(s *pipeline.Status, _ *time.Time) { s.Connected = false }},
		{"attention", "The stage is stopping", 0, func(s *pipeline.Status, _ *time.Time) { s.Stopping = true }},
		{"attention", "The stage is starting, or has ended", 0, func(s *pipeline.Status, _ *time.Time) { s.Running = false }},
		{"good", "No partitions: other workers have them all", 0, func(s *pipeline.Status, _ *time.Time) { s.Partitions = nil }},
	} {
		s, at := good(c.change)
		v := newVerdict(s, 3400, at, c.behind, now)
		if v.Level != c.level || v.Text != c.text {
			t.Errorf("%s: %q, want %s: %q", v.Level, v.Text, c.level, c.text)
		}
		if (v.Level == "good") != (len(v.Why) == 0) && c.behind == 0 {
			t.Errorf("%q: why %q", v.Text, v.Why)
		}
	}
	s, at := good(func(s *pipeline.Status, _ *time.Time) {
		for i := range s.Partitions {
			s.Partitions[i].Waiting = strings.Repeat("long\n", 1000)
		}
	})
	if v := newVerdict(s, 3400, at, 0, now); len(v.Why) != mostWhys+1 || len(v.Why[0]) > longText+10 || strings.Contains(v.Why[0], "\n") || v.Why[mostWhys] != "and 54 more: /readyz has all" {
		t.Errorf("%d reasons: %q", len(v.Why), v.Why)
	}
}
