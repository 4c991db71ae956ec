package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// fullProcess returns the status of a worker with many partitions, classes and errors.
func fullProcess(partitions, classes int) *Process {
	p := &Process{Form: Form, Role: RoleStage, Job: "eusn", ID: "id", Host: "host", PID: 7, Program: "v1", Stage: &Stage{Worker: "w", Phases: map[string]int{}, Classes: Counts{}}}
	for i := range partitions {
		q := Partition{Partition: i, Phase: string(pipeline.Reading), Epoch: 1, Lag: int64(i % 7)}
		if i%10 == 3 {
			q.Phase, q.Why = string(pipeline.Stopped), strings.Repeat("why ", 100)
		}
		p.Stage.Phases[q.Phase]++
		p.Stage.Partitions = append(p.Stage.Partitions, q)
	}
	for i := range classes {
		p.Stage.Classes[fmt.Sprintf("%d%s", i, strings.Repeat("c", 250))] = uint64(i)
	}
	for i := range MostErrors {
		p.Errors = append(p.Errors, LogMessage{Time: time.Unix(int64(i), 0), Level: "ERROR", Text: strings.Repeat("e", mostText), Times: 1})
	}
	p.sortLists()
	return p
}

// TestEncodeBounds: a worker's status fits into the size limit: omitted partitions are counted, and
// partitions that need attention are omitted last.
func TestEncodeBounds(t *testing.T) {
	for _, most := range []int{1 << 20, 64 << 10, 16 << 10, 2 << 10} {
		body, err := fullProcess(1000, MostClasses).encodeWithin(most)
		if err != nil || len(body) > most {
			t.Fatalf("%d bytes of at most %d, %v", len(body), most, err)
		}
		p, err := Decode(body, "eusn")
		if err != nil {
			t.Fatal(err)
		}
		s := p.Stage
		if len(s.Partitions)+s.LeftOut != 1000 || s.Phases["reading"] != 900 {
			t.Errorf("%d partitions and %d left out of 1000; %v", len(s.Partitions), s.LeftOut, s.Phases)
		}
		if stopped := s.Partitions[0].Phase == string(pipeline.Stopped); !stopped && len(s.Partitions) < 900 {
			t.Errorf("of %d partitions, the first is %+v: one that is read was left in before one that is stopped", len(s.Partitions), s.Partitions[0])
		}
	}
	if body, err := fullProcess(1, 0).encodeWithin(20); err == nil {
		t.Errorf("%s has more than 20 bytes", body)
	}
}

// TestDecodeHugeFigures: impossible figures come from other programs: their sums still give a
// report that JSON allows.
func TestDecodeHugeFigures(t *testing.T) {
	l := reportBuilder{report: new(Report), job: &store.Job{}}
	for i := range 3 {
		p, err := Decode(fmt.Appendf(nil, `{"form":1,"job":"eusn","id":"%d","role":"stage","stage":{"lag":9223372036854775807,"answered_s":1e308,
			"rates":{"over_s":1.7e308,"messages":1.7e308,"samples":1.7e308},"partitions":[{"partition":%d,"phase":"reading","lag":9223372036854775807}]}}`, i, i), "eusn")
		if err != nil {
			t.Fatal(err)
		}
		l.report.Processes = append(l.report.Processes, *p)
		l.report.Lag.Messages += p.Stage.Partitions[0].Lag
	}
	l.combineProcesses()
	l.report.Judge(DefaultBehind)
	if _, err := json.Marshal(l.report); err != nil || l.report.Lag.Messages < 0 || l.report.Rates.Samples <= 0 {
		t.Errorf("%v; %d messages wait, %+v", err, l.report.Lag.Messages, l.report.Rates)
	}
}

// FuzzDecode checks the decoder's bounds with arbitrary bytes.
func FuzzDecode(f *testing.F) {
	body, err := fullProcess(20, 3).encodeWithin(1 << 20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	for _, role := range []string{`"role":"gateway","gateway":{"messages":{"mqtt":3},"waiting":-1}`, `"role":"alarms","alarms":{"begun":true}`, `"role":"stage","stage":{"phases":{"reading":-1},"partitions":[{"partition":5000}]}`} {
		f.Add([]byte(`{"form":1,"job":"eusn","id":"a",` + role + `}`))
	}
	f.Add([]byte(`{"form":1,"job":"eusn","id":"a","role":"stage","stage":null}`))
	f.Add([]byte(`{"form":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data, "eusn")
		if err != nil {
			if !errors.Is(err, ErrAnswer) {
				t.Errorf("%v is no ErrAnswer", err)
			}
			return
		}
		if p.Job != "eusn" || p.Form != Form || p.ID == "" || len(p.Errors) > MostErrors || len(p.Marks) > MostMarks || len(p.Host) > mostName+3 {
			t.Errorf("%+v", p)
		}
		if s := p.Stage; s != nil {
			if len(s.Partitions) > MostPartitions || s.Lag < 0 || len(s.Classes) > mostCounts || len(s.Shadows) > wire.MostShadows {
				t.Errorf("%+v", s)
			}
			for _, q := range s.Partitions {
				if q.Partition < 0 || q.Lag < 0 || q.Unsaved < 0 || strings.ContainsAny(q.Why, "\n\x1b") {
					t.Errorf("%+v", q)
				}
			}
		}
		// An accepted answer decodes to the same value.
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > mostBytes { // of characters that JSON escapes
			return
		}
		q, err := Decode(again, "eusn")
		if err != nil {
			t.Fatalf("%s is not read again: %v", again, err)
		}
		if third, _ := json.Marshal(q); string(third) != string(again) {
			t.Errorf("%s\nis read again as\n%s", again, third)
		}
	})
}

// TestJournal: a journal has the last warnings and errors, repeated ones once, and passes accepted
// records on. Several goroutines may write.
func TestJournal(t *testing.T) {
	var out strings.Builder
	var j Journal
	log := j.WrapLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})))
	log.Info("no news")
	log.Warn("first", "n", 1)
	log.With("part", 3).WithGroup("g").Error("second\nline", "a", strings.Repeat("x", 2*mostText))
	last := j.LastMessages()
	if len(last) != 2 || last[1].Text != "first n=1" || last[1].Level != "WARN" || !strings.HasPrefix(last[0].Text, "second line part=3 g.a=xxx") || len(last[0].Text) > mostText+3 {
		t.Errorf("%+v", last)
	}
	if s := out.String(); strings.Contains(s, "first") || strings.Count(s, "\n") != 1 {
		t.Errorf("the log has\n%s", s)
	}
	quiet := j.WrapLogger(slog.New(slog.DiscardHandler))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				quiet.Error("again")
			}
		})
	}
	all.Wait()
	if last = j.LastMessages(); len(last) != 3 || last[0].Times != 800 {
		t.Errorf("%+v", last)
	}
	for i := range 3 * MostErrors {
		quiet.Warn(fmt.Sprint("w", i))
	}
	if last = j.LastMessages(); len(last) != MostErrors || last[0].Text != fmt.Sprint("w", 3*MostErrors-1) {
		t.Errorf("%d of them, first %+v", len(last), last[0])
	}
}

// TestRates: rates are means of the last seconds, zero before two readings.
func TestRates(t *testing.T) {
	var m meter
	at := time.Unix(1000, 0)
	if r := m.computeRates(reading{time: at, messages: 5}); r != (Rates{}) {
		t.Errorf("%+v of one reading", r)
	}
	for i := range 30 { // 10 a second, then 20
		n := uint64(10 * i)
		if i >= 15 {
			n += uint64(10 * (i - 15))
		}
		m.addReading(reading{time: at.Add(time.Duration(i) * time.Second), messages: n, samples: 4 * n, predictions: n / 10})
	}
	now := reading{time: at.Add(29 * time.Second), messages: 430, samples: 1720, predictions: 43}
	if r := m.computeRates(now); r.Over != 10 || r.Messages != 20 || r.Samples != 80 || r.Predictions != 2 {
		t.Errorf("%+v", r)
	}
	if r := m.computeRates(reading{time: now.time}); r.Messages != 0 { // the counters were reset
		t.Errorf("%+v", r)
	}
}

// TestKeepWorst: beyond the limit, partitions that need attention are kept, then those with the
// largest lag, in order of numbers.
func TestKeepWorst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := fullProcess(200, 0).Stage.Partitions
	rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	kept, left := keepWorst(all, 30)
	stopped, behind := 0, 0
	for i, p := range kept {
		if i > 0 && kept[i-1].Partition >= p.Partition {
			t.Errorf("%d comes after %d", p.Partition, kept[i-1].Partition)
		}
		if p.isHealthy() {
			if behind++; p.Lag != 6 {
				t.Errorf("%+v is kept", p)
			}
		} else {
			stopped++
		}
	}
	if left != 170 || stopped != 20 || behind != 10 {
		t.Errorf("%d left out, %d stopped, %d behind", left, stopped, behind)
	}
}

// BenchmarkAnswer measures an answer of a worker with 1,000 partitions, without reading its
// counters, and the asker's decoding.
func BenchmarkAnswer(b *testing.B) {
	p := fullProcess(1000, MostClasses)
	body, err := p.encodeWithin(mostAnswer)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, err := p.encodeWithin(mostAnswer); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, err := Decode(body, "eusn"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
