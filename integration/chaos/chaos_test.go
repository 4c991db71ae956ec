//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// The test binary is its own NATS server, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == natsServerCommand {
		os.Exit(natsServer(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// runTruth runs a plan through a truth, in the given order or in the order of the plan.
func runTruth(t *testing.T, p *plan, policy string, reorder int, order map[string][]uint64) *truth {
	t.Helper()
	m, err := newModel(policy)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTruth(p, m, reorder)
	if err != nil {
		t.Fatal(err)
	}
	in := uint64(0)
	for _, key := range p.keys {
		seqs := order[key]
		if order == nil {
			for _, s := range p.sends[key] {
				seqs = append(seqs, s.seq)
			}
		}
		for _, seq := range seqs {
			in++
			if err := tr.readInput(p.findMessage(key, seq), in); err != nil {
				t.Fatal(err)
			}
		}
	}
	return tr
}

// listFlags lists a stream's predictions as "seq.row flags", in order.
func (t *truth) listFlags(id string) string {
	var all []string
	for _, p := range t.predictions[id] {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%d.%d %s", p.Seq, p.Row, p.Flags)))
	}
	return strings.Join(all, ", ")
}

// handmade returns messages of two rows; the second row ends the sequence, unless ends
// differs.
func handmade(seqs int, damaged ...uint64) *plan {
	p := &plan{keys: []string{"k"}, messages: map[string][]*input{}, encoders: map[codec.InputOptions]*codec.InputEncoder{}, marked: true}
	for seq := uint64(1); seq <= uint64(seqs); seq++ {
		p.messages["k"] = append(p.messages["k"], &input{
			key: "k", seq: seq, x: []float32{1, float32(seq) / 8, 1.5, -1}, times: []int64{int64(seq), int64(seq)}, ends: []bool{false, true},
			damaged: slices.Contains(damaged, seq),
		})
	}
	return p
}

// The bookkeeping, against results computed by hand.
func TestTruth(t *testing.T) {
	for _, c := range []struct {
		what, policy string
		reorder      int
		seqs         []uint64
		damaged      []uint64
		want         string
	}{
		{"in order", "marked", 0, []uint64{1, 2, 3}, nil, "1.1, 2.1, 3.1"},
		{"repeated", "marked", 0, []uint64{1, 1, 2, 1, 2, 3}, nil, "1.1, 2.1, 3.1"},
		{"missing", "marked", 0, []uint64{1, 3, 4}, nil, "1.1, 3.1 gap, 4.1"},
		{"begins late", "marked", 0, []uint64{2, 3}, nil, "2.1 gap, 3.1"},
		{"given up, then there", "marked", 0, []uint64{1, 3, 2, 4}, nil, "1.1, 3.1 gap, 4.1"},
		{"damaged", "marked", 0, []uint64{1, 2, 3, 4}, []uint64{2}, "1.1, 3.1 poison-skipped, 4.1"},
		{"put in order", "marked", 2, []uint64{1, 4, 3, 2, 5}, nil, "1.1, 2.1, 3.1 reordered, 4.1 reordered, 5.1"},
		{"too many wait", "marked", 2, []uint64{1, 5, 4, 3, 6, 2}, nil, "1.1, 3.1 gap, 4.1, 5.1, 6.1"},
		{"a hole after a hole", "marked", 2, []uint64{1, 3, 5, 6, 4}, nil, "1.1, 3.1 gap, 4.1, 5.1 reordered, 6.1 reordered"},
		{"waiting for ever", "marked", 2, []uint64{1, 3, 4}, nil, "1.1"},
		{"damaged and early", "marked", 2, []uint64{1, 3, 2, 4}, []uint64{3}, "1.1, 2.1, 4.1 poison-skipped"},
		{"a window that begins after the gap", "window", 0, []uint64{1, 2, 4, 5, 6, 7, 8, 9, 10}, nil, "7.1 gap, 9.1"},
		{"counted across a gap", "count", 0, []uint64{1, 2, 4, 5, 6}, nil, "4.0 gap, 6.1"},
		{"early, then the mark", "early", 0, []uint64{1, 2}, nil, "1.1, 2.1"},
	} {
		tr := runTruth(t, handmade(12, c.damaged...), c.policy, c.reorder, map[string][]uint64{"k": c.seqs})
		if got := tr.listFlags("k"); got != c.want {
			t.Errorf("%s: predictions %q, want %q", c.what, got, c.want)
		}
	}
}

// Samples outside the model's ranges, computed by hand; the plan has both kinds, and
// sequences of neither kind.
func TestTruthOfSamples(t *testing.T) {
	hang := func(n int) (x []float32) {
		for i := range n {
			x = append(x, .5, float32(i%5)/4)
		}
		return x
	}
	for _, c := range []struct {
		x    []float32
		want outcome.Flag
	}{
		{hang(8), 0}, {hang(9), outcome.FlagFlat}, {append(hang(8), hang(1)...), outcome.FlagFlat}, {append(append(hang(8), .6, 0), hang(8)...), 0},
		{[]float32{1.93, -1.93, 1.94, -1.94}, 0}, {[]float32{0, 1.95}, outcome.FlagOutOfRange}, {[]float32{-1.95, 0}, outcome.FlagOutOfRange},
		{append(hang(9), 0, 2), outcome.FlagFlat | outcome.FlagOutOfRange},
	} {
		if got := flagsOf(c.x); got != c.want {
			t.Errorf("%v: flags %q, want %q", c.x, got, c.want)
		}
	}
	seen := map[outcome.Flag]int{}
	tr := runTruth(t, newPlan(3, traffic{Keys: 2, Messages: 200}, true), "window", 0, nil)
	for _, ps := range tr.predictions {
		for _, p := range ps {
			seen[p.Flags&(outcome.FlagFlat|outcome.FlagOutOfRange)]++
		}
	}
	if seen[0] < 20 || seen[outcome.FlagFlat] < 20 || seen[outcome.FlagOutOfRange] < 20 {
		t.Errorf("predictions by flags %v: one kind is rare", seen)
	}
}

// End events, computed by hand: messages of one row without a mark, two before the event
// and five after it.
func TestTruthOfSilence(t *testing.T) {
	for _, c := range []struct {
		what, policy, events, want string
		partitions                 int
	}{
		{"nothing heard since", "marked", `{"After":2,"Streams":[{"Key":"k","Stream":"k"}]}`, "2.0 idle, 7.0 idle", 1},
		{"heard since", "marked", `{"After":1,"Streams":[{"Key":"k","Stream":"k"}]}`, "7.0 idle", 1},
		{"unknown key and stream", "marked", `{"After":2,"Streams":[{"Key":"x","Stream":"k"},{"Key":"k","Stream":"x"}]}`, "7.0 idle", 1},
		{"key of partition 2", "marked", `{"After":2,"Streams":[{"Key":"k","Stream":"k"}]}`, "", 4},
		{"counted again from 1", "count", `{"After":2,"Streams":[{"Key":"k","Stream":"k"}]}`, "7.0", 1},
	} {
		p := handmade(7)
		for _, m := range p.messages["k"] {
			m.x, m.times, m.ends = m.x[:2], m.times[:1], []bool{false}
		}
		tr := runTruth(t, p, c.policy, 0, map[string][]uint64{})
		in := uint64(0)
		take := func(seqs ...uint64) {
			for _, seq := range seqs {
				in++
				if err := tr.readInput(p.findMessage("k", seq), in); err != nil {
					t.Fatal(err)
				}
			}
		}
		event := func(body string) {
			in++
			if err := tr.applySilence(stored{seq: in, data: []byte(body)}, c.partitions); err != nil {
				t.Fatal(err)
			}
		}
		take(1, 2)
		event(c.events)
		take(3, 4, 5, 6, 7)
		event(fmt.Sprintf(`{"After":%d,"Streams":[{"Key":"k","Stream":"k"}]}`, in))
		if got := tr.listFlags("k"); got != c.want {
			t.Errorf("%s: predictions %q, want %q", c.what, got, c.want)
		}
	}
}

// The readout of a prediction, computed by hand: sequences of two samples, a message per
// sample; the promotion follows the third message.
func TestTruthOfPromotions(t *testing.T) {
	for _, c := range []struct{ what, policy, events, want, first string }{
		{"at the next sequence", "marked", `{"Number":1,"Readout":"b"}`, "2:,4:,6:b", "2:,4:,6:"},
		{"now", "marked", `{"Number":1,"Readout":"b","Now":true}`, "2:,4:b,6:b", "2:,4:,6:"},
		{"back", "marked", `{"Number":1,"Readout":"b"};{"Number":2}`, "2:,4:,6:", "2:,4:,6:"},
		{"late", "marked", `{"Number":2,"Readout":"c"};{"Number":1,"Readout":"b","Now":true}`, "2:,4:,6:c", "2:,4:,6:"},
		{"of another partition", "marked", `{"Partition":1,"Number":1,"Readout":"b"}`, "2:,4:,6:", "2:,4:,6:"},
	} {
		p := handmade(6)
		for i, m := range p.messages["k"] {
			m.x, m.times, m.ends = m.x[:2], m.times[:1], []bool{i%2 == 1}
		}
		one, err := newModel(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		m, err := withReadouts(one, c.policy)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := newTruth(p, m, 0)
		if err != nil {
			t.Fatal(err)
		}
		tr.readouts.names, tr.readouts.partition = []string{"a", "b", "c"}, func(key string) int { return partitionOf(key, 2) }
		at := partitionOf("k", 2)
		for seq := uint64(1); seq <= 6; seq++ {
			if err := tr.readInput(p.findMessage("k", seq), seq); err != nil {
				t.Fatal(err)
			}
			for body := range strings.SplitSeq(c.events, ";") {
				var where struct{ Partition int }
				if err := json.Unmarshal([]byte(body), &where); err != nil {
					t.Fatal(err)
				}
				if in := (at + where.Partition) % 2; seq == 3 {
					body = fmt.Sprintf(`%s,"Partition":%d}`, strings.TrimSuffix(body, "}"), in)
					if err := tr.promote(stored{seq: 3, partition: in, data: []byte(body)}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		says := func(all []codec.Prediction) string {
			var list []string
			for _, p := range all {
				list = append(list, fmt.Sprint(p.Seq, ":", p.Readout))
			}
			return strings.Join(list, ",")
		}
		got, first := tr.predictions["k"], tr.readouts.first["k"]
		if says(got) != c.want || says(first) != c.first {
			t.Errorf("%s: predictions %s, want %s; without promotions %s", c.what, says(got), c.want, says(first))
		}
		for i := range got {
			if same := slices.Equal(got[i].Scores, first[i].Scores); same != (got[i].Readout == "") {
				t.Errorf("%s: prediction %d of readout %q, scores %v; of the first one %v", c.what, i, got[i].Readout, got[i].Scores, first[i].Scores)
			}
		}
	}
	tr := runTruth(t, handmade(1), "marked", 0, nil)
	if err := tr.promote(stored{data: []byte(`{"Number":1,"Readout":"x"}`)}); err == nil {
		t.Error("an unpublished readout is promoted")
	}
}

// The comparison must find each change of a correct output, and count exactly.
func TestAuditFindsEachFault(t *testing.T) {
	p := newPlan(1, traffic{Keys: 6, Messages: 30, Gateways: 3, Repeat: .1}, true)
	tr := runTruth(t, p, "early", 0, nil)
	right := tr.predictions["dev001"]
	if len(right) < 20 {
		t.Fatalf("only %d predictions", len(right))
	}
	for _, c := range []struct {
		what                    string
		change                  func(p []codec.Prediction) []codec.Prediction
		lost, duplicated, wrong int
	}{
		{"nothing", func(p []codec.Prediction) []codec.Prediction { return p }, 0, 0, 0},
		{"one missing", func(p []codec.Prediction) []codec.Prediction { return slices.Delete(p, 4, 5) }, 1, 0, 0},
		{"the last three missing", func(p []codec.Prediction) []codec.Prediction { return p[:len(p)-3] }, 3, 0, 0},
		{"one twice", func(p []codec.Prediction) []codec.Prediction { return slices.Insert(p, 5, p[4]) }, 0, 1, 0},
		{"two swapped", func(p []codec.Prediction) []codec.Prediction { p[3], p[4] = p[4], p[3]; return p }, 1, 1, 0},
		{"one bit of a score", func(p []codec.Prediction) []codec.Prediction {
			p[2].Scores = slices.Clone(p[2].Scores)
			p[2].Scores[0] += 1e-7 * p[2].Scores[0]
			return p
		}, 0, 0, 1},
		{"a class", func(p []codec.Prediction) []codec.Prediction { p[2].Class ^= 1; return p }, 0, 0, 1},
		{"a flag", func(p []codec.Prediction) []codec.Prediction { p[2].Flags ^= outcome.FlagGap; return p }, 0, 0, 1},
		{"another readout", func(p []codec.Prediction) []codec.Prediction { p[2].Readout = "b"; return p }, 0, 0, 1},
		{"a time", func(p []codec.Prediction) []codec.Prediction { p[2].Time++; return p }, 0, 0, 1},
		{"another row", func(p []codec.Prediction) []codec.Prediction { p[2].Row = 77; return p }, 1, 0, 1},
		{"another stream", func(p []codec.Prediction) []codec.Prediction { p[2].Stream = "ghost"; return p }, 1, 0, 1},
	} {
		a := newAudit(tr.predictions)
		for id, all := range tr.predictions {
			if id == "dev001" {
				all = c.change(slices.Clone(all))
			}
			for _, p := range all {
				a.checkPrediction(0, false, p)
			}
		}
		a.countMissing(func(string) int { return 0 }, nil)
		if a.lost != c.lost || a.duplicated != c.duplicated || a.wrong != c.wrong {
			t.Errorf("%s: %d lost, %d duplicated, %d wrong, want %d, %d, %d: %v", c.what, a.lost, a.duplicated, a.wrong, c.lost, c.duplicated, c.wrong, a.notes)
		}
	}
}

// If a fault may remove data, incomplete predictions must have a flag; no other
// difference passes.
func TestAuditOfFaults(t *testing.T) {
	tr := runTruth(t, newPlan(1, traffic{Keys: 3, Messages: 30}, true), "marked", 0, nil)
	if n := len(tr.predictions["dev001"]); n < 15 {
		t.Fatalf("only %d predictions", n)
	}
	gap := func(p []codec.Prediction, i int) []codec.Prediction { p[i].Flags |= outcome.FlagGap; return p }
	flag, stop, shown := may{Flag: true}, may{Stop: true}, may{Shown: true}
	for _, c := range []struct {
		what                                      string
		may                                       may
		stopped                                   bool
		change                                    func(p []codec.Prediction) []codec.Prediction
		lost, duplicated, wrong, flagged, excused int
	}{
		{"a flag", flag, false, func(p []codec.Prediction) []codec.Prediction { return gap(p, 3) }, 0, 0, 0, 1, 0},
		{"a flag that is not allowed", stop, false, func(p []codec.Prediction) []codec.Prediction { return gap(p, 3) }, 0, 0, 1, 0, 0},
		{"two missing before a flag", flag, false, func(p []codec.Prediction) []codec.Prediction { return slices.Delete(gap(p, 5), 3, 5) }, 0, 0, 0, 1, 2},
		{"two missing before no flag", flag, false, func(p []codec.Prediction) []codec.Prediction { return slices.Delete(p, 3, 5) }, 2, 0, 0, 0, 0},
		{"other scores and a flag", flag, false, func(p []codec.Prediction) []codec.Prediction { p[3].Score++; return gap(p, 3) }, 0, 0, 0, 1, 0},
		{"other scores", flag, false, func(p []codec.Prediction) []codec.Prediction { p[3].Score++; return p }, 0, 0, 1, 0, 0},
		{"an unplanned prediction, and a flag", flag, false, func(p []codec.Prediction) []codec.Prediction { p[3].Row = 77; return gap(p, 3) }, 1, 0, 0, 1, 0},
		{"twice, with a flag", flag, false, func(p []codec.Prediction) []codec.Prediction { return gap(slices.Insert(p, 4, p[3]), 4) }, 0, 1, 0, 0, 0},
		{"another order", flag, false, func(p []codec.Prediction) []codec.Prediction { p[3].Flags |= outcome.FlagReordered; return p }, 0, 0, 0, 0, 0},
		{"the rest missing", stop, false, func(p []codec.Prediction) []codec.Prediction { return p[:len(p)-4] }, 4, 0, 0, 0, 0},
		{"the rest missing, and a stop", stop, true, func(p []codec.Prediction) []codec.Prediction { return p[:len(p)-4] }, 0, 0, 0, 0, 4},
		{"one missing in the middle, and a stop", stop, true, func(p []codec.Prediction) []codec.Prediction { return slices.Delete(p, 3, 4) }, 1, 0, 0, 0, 0},
		{"two missing, which the output counts", shown, false, func(p []codec.Prediction) []codec.Prediction { return slices.Delete(p, 3, 5) }, 0, 0, 0, 0, 2},
	} {
		a := newAudit(tr.predictions)
		a.may = c.may
		if c.may.Shown {
			a.hidden[0] = 2
		}
		for id, all := range tr.predictions {
			if all = slices.Clone(all); id == "dev001" {
				all = c.change(all)
			}
			for _, p := range all {
				a.checkPrediction(0, false, p)
			}
		}
		stopped := stops{}
		if c.stopped {
			stopped[0] = "why"
		}
		a.countMissing(func(string) int { return 0 }, stopped)
		if a.lost != c.lost || a.duplicated != c.duplicated || a.wrong != c.wrong || a.flagged != c.flagged || a.excused != c.excused {
			t.Errorf("%s: %d lost, %d duplicated, %d wrong, %d flagged, %d excused, want %d, %d, %d, %d, %d: %v", c.what,
				a.lost, a.duplicated, a.wrong, a.flagged, a.excused, c.lost, c.duplicated, c.wrong, c.flagged, c.excused, a.notes)
		}
	}
}

// For each seat, the last worker with log lines counts.
func TestStopped(t *testing.T) {
	c := &children{dir: t.TempDir()}
	f := &fleet{}
	say := func(seat int, exit string, lines ...string) {
		name := fmt.Sprintf("w%02d", len(f.all))
		p, err := c.start(name, nil, "sh", "-c", `exit "$0"`, exit)
		if err != nil {
			t.Fatal(err)
		}
		<-p.done
		if err := os.WriteFile(c.dir+"/"+name+".log", []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		f.all = append(f.all, &worker{proc: p, seat: seat})
	}
	const reading = `time=2026-01-01T00:00:00Z level=INFO msg="stage is reading"`
	stopped := func(p int) string {
		return fmt.Sprintf(`level=ERROR msg="partition stopped: no predictions until this is fixed" partition=%d err="lost"`, p)
	}
	deferred := func(at time.Time, p int, in string) string {
		return fmt.Sprintf(`time=%s level=WARN msg="partition deferred: the worker retries automatically" partition=%d in=%s err="full"`, at.Format(time.RFC3339Nano), p, in)
	}
	say(0, "1", reading, stopped(1))                                                                                     // earlier and resolved
	say(0, "0", reading, deferred(time.Now(), 2, "16s"), deferred(time.Now(), 3, "2s"), deferred(time.Time{}, 4, "16s")) // in long waits, at first, and long ago
	say(1, "1", reading, stopped(5))                                                                                     // the last worker with log lines
	say(1, "4", "eusn-stream: no connection")
	say(1, "0")
	got, err := f.findStopped(c.dir, 8)
	if err != nil || len(got) != 2 || got[2] == "" || got[5] == "" {
		t.Errorf("stopped: %v, %v; want partitions 2 and 5", got, err)
	}
	say(1, "3", "eusn-stream: refused")
	if got, err := f.findStopped(c.dir, 8); err != nil || len(got) != 8 || got[7] != "refused" {
		t.Errorf("of a worker that could not start: %v, %v; want all 8 partitions", got, err)
	}
}

// A seed decides all random choices.
func TestSeed(t *testing.T) {
	s := base("x").with(func(s *scenario) { s.Kills, s.Zombies, s.ServerKills, s.Workers = 5, 2, 3, []int{1, 3, 2} })
	if !reflect.DeepEqual(s.schedule(9), s.schedule(9)) || reflect.DeepEqual(s.schedule(9), s.schedule(10)) {
		t.Error("the schedule is not a function of the seed")
	}
	a, b, c := newPlan(9, usual, true), newPlan(9, usual, true), newPlan(10, usual, true)
	if !reflect.DeepEqual(a.messages, b.messages) || !reflect.DeepEqual(a.sends, b.sends) || reflect.DeepEqual(a.messages, c.messages) {
		t.Error("the plan is not a function of the seed")
	}
}

// Every name in a matrix exists, and the long matrix reaches its promised numbers.
func TestMatrices(t *testing.T) {
	for name := range matrices {
		o := options{matrix: name}
		list, err := o.chosenRuns()
		if err != nil || len(list) == 0 {
			t.Errorf("matrix %s: %d runs, %v", name, len(list), err)
		}
	}
	o := options{matrix: "long"}
	list, err := o.chosenRuns()
	if err != nil {
		t.Fatal(err)
	}
	var runs, kills, zombies, servers, splits, messages int
	controls := map[string]bool{}
	for _, s := range list {
		if s.control() != "" {
			controls[s.control()] = true
			continue
		}
		runs++
		kills, zombies, servers, splits = kills+s.Kills, zombies+s.Zombies, servers+s.ServerKills, splits+s.Splits
		messages += s.Traffic.Keys * s.Traffic.Messages
	}
	// A message of these plans results in about one prediction.
	if runs < 40 || kills < 200 || zombies < 60 || servers < 60 || splits < 30 || messages < 480_000 || len(controls) != 13 {
		t.Errorf("the long matrix plans %d runs, %d worker kills, %d zombies, %d server kills, %d partitions, %d messages and controls %v",
			runs, kills, zombies, servers, splits, messages, controls)
	}
}

// A held link delivers all data late, even if the sender has ended; a cut link resets.
func TestLink(t *testing.T) {
	ln, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	got := make(chan string, 10)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b, err := io.ReadAll(c)
				got <- fmt.Sprint(len(b), err == nil)
			}()
		}
	}()
	l, err := newLink(&cluster{nodes: []*node{{port: ln.Addr().(*net.TCPAddr).Port}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.closeLink()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.proxies[0].ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() }) // keeps c: the collector would close it
		return c
	}
	c := dial()
	c.Write(make([]byte, 10))
	time.Sleep(50 * time.Millisecond)
	l.hold()
	c.Write(make([]byte, 100_000))
	c.Close()
	select {
	case g := <-got:
		t.Fatalf("a held link let the end through: %s", g)
	case <-time.After(200 * time.Millisecond):
	}
	l.release()
	if g := <-got; g != "100010 true" || l.late.Load() < 90_000 {
		t.Errorf("after the release the server has %s, %d bytes late; want 100010 true and most", g, l.late.Load())
	}

	l.holdOne(toWorker) // the server receives, but its answers are held
	c = dial()
	c.Write([]byte("xy"))
	c.Close()
	if g := <-got; g != "2 true" {
		t.Errorf("with the other direction held the server has %s, want 2 bytes and the end", g)
	}
	l.release()

	c = dial()
	c.Write([]byte("x"))
	time.Sleep(50 * time.Millisecond)
	l.cut()
	if g := <-got; g != "1 false" {
		t.Errorf("after a cut the server has %s, want 1 byte and an error", g)
	}
	if n, err := dial().Read(make([]byte, 1)); err == nil {
		t.Errorf("a cut link took a connection and gave %d bytes", n)
	}
	l.mend()
	l.slow(100 * time.Millisecond)
	c, begin := dial(), time.Now()
	c.Write([]byte("xyz"))
	c.Close()
	if g := <-got; g != "3 true" || time.Since(begin) < 100*time.Millisecond {
		t.Errorf("a slow link delivered %s after %v", g, time.Since(begin))
	}
}

// Processes that a run leaves running are found and ended.
func TestReap(t *testing.T) {
	c := &children{dir: t.TempDir()}
	well, err := c.start("well", nil, "true")
	if err != nil {
		t.Fatal(err)
	}
	<-well.done
	if left := c.reap(); len(left) > 0 || well.exitStatus() != endedWell {
		t.Errorf("left %v, %s", left, well.exitStatus())
	}
	stays, err := c.start("stays", nil, "sleep", "100")
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := c.start("orphan", nil, "sh", "-c", "sleep 100 & true")
	if err != nil {
		t.Fatal(err)
	}
	<-orphan.done
	if left := c.reap(); !slices.Equal(left, []string{"stays", "orphan's child"}) {
		t.Errorf("reap found %v", left)
	}
	if !stays.wasKilled() {
		t.Errorf("the process ended by %s", stays.exitStatus())
	}
}

// The copy of a disk has only synced data: a power loss takes the rest.
func TestPowerLoss(t *testing.T) {
	if why := mounts(); why != "" {
		parts.Absent(t, "loopmount", "%s", why)
	}
	c := &children{dir: t.TempDir()}
	image, dir := c.dir+"/image", c.dir+"/mnt"
	if err := makeImage(image); err != nil {
		t.Fatal(err)
	}
	in := func(name, script string) *proc {
		p, err := c.startIn(syscall.CLONE_NEWNS, name, nil, "sh", "-c", `mount --make-rprivate / && mkdir -p "$1" && mount -o loop "$0" "$1" && cd "$1" && `+script, image, dir)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	writes := in("writes", "echo a >a && sync -f a && echo b >b && echo written >../done && exec sleep 100")
	for i := 0; ; i++ {
		if _, err := os.Stat(c.dir + "/done"); err == nil {
			break
		}
		if writes.hasEnded() || i > 1000 {
			t.Fatal("nothing was written: ", writes.hasEnded())
		}
		time.Sleep(10 * time.Millisecond)
	}
	writes.signal(syscall.SIGSTOP)
	if !writes.isStopped() {
		t.Fatal("the process does not stop")
	}
	if out, err := exec.Command("cp", "--sparse=always", image, image+".cut").CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	writes.kill()
	if err := os.Rename(image+".cut", image); err != nil {
		t.Fatal(err)
	}
	reads := in("reads", "cat a b 2>/dev/null >../seen; true")
	<-reads.done
	seen, err := os.ReadFile(c.dir + "/seen")
	if err != nil || string(seen) != "a\n" { // the second name may exist: names are written earlier
		t.Errorf("after the power loss there is %q (%v), want what was synced", seen, err)
	}
	if text, err := os.ReadFile("/proc/mounts"); err != nil || strings.Contains(string(text), dir) {
		t.Errorf("something is still mounted at %s (%v)", dir, err)
	}
}

// Exactly one bit of the newest block changes.
func TestFlipBit(t *testing.T) {
	dir := t.TempDir()
	if err := flipBit(dir, rand.New(rand.NewPCG(1, 1))); err == nil {
		t.Error("a bit was flipped without a block")
	}
	if err := os.Mkdir(dir+"/msgs", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{"1.blk": 100, "2.blk": 1000, "index.db": 5000} {
		if err := os.WriteFile(dir+"/msgs/"+name, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(20) {
		if err := flipBit(dir, rand.New(rand.NewPCG(1, seed))); err != nil {
			t.Fatal(err)
		}
		ones := 0
		for _, name := range []string{"1.blk", "2.blk", "index.db"} {
			data, err := os.ReadFile(dir + "/msgs/" + name)
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range data {
				if ones += bits.OnesCount8(b); b != 0 && (name != "2.blk" || i < 500) {
					t.Errorf("byte %d of %s was changed", i, name)
				}
			}
			if err := os.WriteFile(dir+"/msgs/"+name, make([]byte, len(data)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if ones != 1 {
			t.Errorf("seed %d: %d bits were flipped, want 1", seed, ones)
		}
	}
}

// A run without running servers ends with a reason, and leaves no files or processes.
func TestRunThatCannotStart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	r := runScenario(ctx, base("x"), 1, "/does/not/exist", t.TempDir())
	if r.OK || len(r.Why) == 0 {
		t.Errorf("a run without a worker binary is %+v", r)
	}
}
