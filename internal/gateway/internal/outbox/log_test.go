package outbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/internal/producer"
)

var nowhere = slog.New(slog.DiscardHandler)

func openLog(t testing.TB, dir string) (*Log, []*Batch) {
	t.Helper()
	l, left, err := Open(dir, nil, nowhere)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, left
}

func putBatch(t testing.TB, l *Log, key string, seq uint64, origin uint64) *Batch {
	t.Helper()
	b := &Batch{Message: &producer.Message{Subject: key, Incarnation: "I", Seq: seq, Payload: fmt.Appendf(nil, "%s %d", key, seq)}}
	b.Add(Origin{"s", origin, 7, 8, false, false}, l.Sessions)
	if err := l.Put(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Waiting batches return with number, bytes and messages; finished batches do not, but
// their messages are remembered.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	l, left := openLog(t, dir)
	if len(left) != 0 {
		t.Fatal("a new outbox is not empty")
	}
	if err := l.SetInput("in"); err != nil {
		t.Fatal(err)
	}
	a, b := putBatch(t, l, "a", 1, 1), putBatch(t, l, "a", 2, 2)
	putBatch(t, l, "b", 1, 3)
	if err := l.Done(a); err != nil {
		t.Fatal(err)
	}
	for life := range 3 {
		l.Close()
		l, left = openLog(t, dir)
		if len(left) != 2 || left[0].Message.Seq != 2 || left[1].Message.Subject != "b" || left[0].Message.Incarnation != "I" || l.Waiting() != 2 || l.Input != "in" {
			t.Fatalf("life %d: %d batches wait, the first %+v", life, len(left), left[0])
		}
		if p, err := l.Payload(left[0]); err != nil || string(p) != "a 2" {
			t.Errorf("payload %q, %v", p, err)
		}
		if n := l.Number("a"); n.Seq != 2 {
			t.Errorf("last number %+v, want 2", n)
		}
		if e, _ := l.Sessions.Find(Origin{"s", 1, 7, 8, false, false}); e == nil || e.Batch != nil {
			t.Errorf("the message that is stored: %+v", e)
		}
		if e, _ := l.Sessions.Find(Origin{"s", 2, 7, 8, false, false}); e == nil || e.Batch != left[0] {
			t.Errorf("the message that waits: %+v", e)
		}
	}
	_ = b
	for _, w := range left {
		if err := l.Done(w); err != nil {
			t.Fatal(err)
		}
	}
	if e, _ := l.Sessions.Find(Origin{"s", 2, 7, 8, false, false}); e == nil || e.Batch != nil {
		t.Errorf("the message is stored: %+v", e)
	}
	if err := l.Forget("s"); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if l, left = openLog(t, dir); len(left) != 0 || l.Sessions.all["s"] != nil {
		t.Errorf("%d batches wait; the session is %v", len(left), l.Sessions.all["s"])
	}
	if err := l.SetInput("another"); err != nil || len(l.numbers) != 0 {
		t.Errorf("the numbers of another input are kept: %v", l.numbers)
	}
	if n, err := segmentNumbers(dir); err != nil || len(n) != 1 {
		t.Errorf("segments %v (%v), want one", n, err)
	}
}

// A message whose batch waited when a run began was never acknowledged, so a device's
// repeat is that message, even if the batch is stored and the device has used only this
// id; not after an answer, nor if the log may lack its end.
func TestUntold(t *testing.T) {
	again := Origin{"s", 1, 7, 8, true, false}
	for _, powerLoss := range []bool{false, true} {
		dir := t.TempDir()
		l, _ := openLog(t, dir)
		putBatch(t, l, "a", 1, 1)
		l.Close()
		if powerLoss {
			otherBoot(t, filepath.Join(dir, "outbox-1"))
		}
		l, left := openLog(t, dir)
		if len(left) != 1 {
			t.Fatalf("%d batches wait", len(left))
		}
		if err := l.Done(left[0]); err != nil {
			t.Fatal(err)
		}
		e, known := l.Sessions.Find(again)
		if bootID() != "" && known == powerLoss {
			t.Errorf("power loss %v: the repeat is known: %v", powerLoss, known)
		}
		if e == nil {
			continue
		}
		e.Told()
		if _, known := l.Sessions.Find(again); known {
			t.Error("the device was told, and what it repeats may be a later message")
		}
	}
}

// An outbox cut or damaged at any byte returns the batches before that position,
// complete, and accepts new batches.
func TestCutAndDamaged(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir)
	for i := range 4 {
		putBatch(t, l, "k", uint64(i+1), uint64(i))
	}
	l.Close()
	name := filepath.Join(dir, "outbox-1")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for at := range len(whole) {
		for _, damage := range []bool{false, true} {
			d := t.TempDir()
			bytes := append([]byte(nil), whole[:at]...)
			if damage {
				bytes = append([]byte(nil), whole...)
				bytes[at] ^= 0x55
			}
			if err := os.WriteFile(filepath.Join(d, "outbox-1"), bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			l, left, err := Open(d, nil, nowhere)
			if err != nil {
				if at < len(magic) && damage {
					continue
				}
				t.Fatalf("byte %d, damaged %v: %v", at, damage, err)
			}
			for i, b := range left {
				if p, err := l.Payload(b); b.Message.Seq != uint64(i+1) || err != nil || string(p) != fmt.Sprintf("k %d", i+1) {
					t.Fatalf("byte %d, damaged %v: batch %d is %+v with %q (%v)", at, damage, i, b, p, err)
				}
			}
			if damage && len(left) > 3 {
				t.Fatalf("byte %d: damage was not found", at)
			}
			putBatch(t, l, "k", 5, 9)
			l.Close()
			again, left2 := openLog(t, d)
			if len(left2) != len(left)+1 {
				t.Fatalf("byte %d, damaged %v: %d batches, then %d", at, damage, len(left), len(left2))
			}
			again.Close()
		}
	}
}

// A power loss may leave a segment with its length and without its data. The outbox opens,
// and no number is valid.
func TestUnwrittenSegment(t *testing.T) {
	for _, size := range []int{1, len(magic), 700} {
		dir := t.TempDir()
		l, _ := openLog(t, dir)
		putBatch(t, l, "k", 1, 1)
		l.Close()
		if err := os.WriteFile(filepath.Join(dir, "outbox-2"), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		for life := range 2 {
			l, left := openLog(t, dir)
			if len(left) != 1 || l.Number("k") != (Number{}) {
				t.Errorf("%d bytes, life %d: %d batches wait, want 1; the number is %+v, want none", size, life, len(left), l.Number("k"))
			}
			l.Close()
		}
		if _, err := os.Stat(filepath.Join(dir, "outbox-2.damaged")); err != nil {
			t.Errorf("%d bytes: no copy is kept: %v", size, err)
		}
	}
}

// A segment without its end before a later segment is detected by the ids of batches,
// including ids only referred to by the later segment. No number is then valid, and a
// repeat of a lost batch is not treated as stored.
func TestEarlierSegmentLosesItsEnd(t *testing.T) {
	for _, later := range []bool{false, true} { // a batch in the later segment
		dir := t.TempDir()
		l, _ := openLog(t, dir)
		putBatch(t, l, "k", 1, 1)
		whole := l.segs[0].size
		putBatch(t, l, "k", 2, 2)
		putBatch(t, l, "k", 3, 3)
		l.Close()
		l, _ = openLog(t, dir)
		if later {
			putBatch(t, l, "k", 4, 4)
		}
		l.Close()
		if err := os.Truncate(filepath.Join(dir, "outbox-1"), whole+5); err != nil {
			t.Fatal(err)
		}
		for life := range 2 {
			l, left := openLog(t, dir)
			if want := 1 + int(bitOf(later)); len(left) != want || l.Number("k") != (Number{}) {
				t.Errorf("later %v, life %d: %d batches wait, want %d; the number is %+v, want none", later, life, len(left), want, l.Number("k"))
			}
			for id, want := range map[uint64]bool{1: true, 2: false, 3: false, 4: later} {
				if _, known := l.Sessions.Find(Origin{"s", id, 7, 8, true, false}); known != want {
					t.Errorf("later %v, life %d: message %d is known: %v, want %v", later, life, id, known, want)
				}
			}
			l.Close()
		}
	}
}

// A power loss removes the earlier segment and keeps the later segment: no number is valid, and
// a repeat of a waiting message is not treated as stored. If the later segment records the
// storage of all batches, the earlier segment was deleted, and nothing is lost.
func TestEarlierSegmentIsMissing(t *testing.T) {
	if bootID() == "" {
		t.Skip("NOT CHECKED: the start of the machine is not known here")
	}
	for _, stored := range []bool{false, true} {
		for _, power := range []bool{false, true} {
			dir := t.TempDir()
			l, _ := openLog(t, dir)
			putBatch(t, l, "k", 1, 1)
			putBatch(t, l, "k", 2, 2)
			putBatch(t, l, "k", 3, 3)
			l.Close()
			l, left := openLog(t, dir)
			for _, b := range left[:2+bitOf(stored)] {
				if err := l.Done(b); err != nil {
					t.Fatal(err)
				}
			}
			l.Close()
			os.Remove(filepath.Join(dir, "outbox-1"))
			if power {
				otherBoot(t, filepath.Join(dir, "outbox-2"))
			}
			lost := power && !stored
			for life := range 2 {
				l, left := openLog(t, dir)
				if n := l.Number("k").Seq; len(left) > 0 || (n == 0) != lost {
					t.Errorf("stored %v, power %v, life %d: %d batches wait, the number is %d", stored, power, life, len(left), n)
				}
				for id := range uint64(3) {
					if _, known := l.Sessions.Find(Origin{"s", id + 1, 7, 8, true, false}); known != (id < 2 || !lost) {
						t.Errorf("stored %v, power %v, life %d: message %d is known: %v", stored, power, life, id+1, known)
					}
				}
				l.Close()
			}
		}
	}
}

// The end of a run is completely on the disk: first all records, then the directory.
// The same applies to an end found by the next run, before its use.
func TestEndIsSynced(t *testing.T) {
	dir := t.TempDir()
	var synced []string // the segments, each with its size, and the directory
	defer durable.Observe(func(s durable.Step) {
		if s.Kind == "folder" {
			synced = append(synced, s.Path)
		} else {
			synced = append(synced, fmt.Sprint(filepath.Base(s.Path), " ", s.Size))
		}
	})()
	want := func(what string) {
		t.Helper()
		var all []string
		numbers, err := segmentNumbers(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range numbers {
			name := fmt.Sprint("outbox-", n)
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprint(name, " ", info.Size()))
		}
		if all = append(all, dir); !slices.Equal(synced, all) {
			t.Errorf("%s: synced are %q, want %q", what, synced, all)
		}
		synced = nil
	}
	l, _ := openLog(t, dir)
	putBatch(t, l, "k", 1, 1)
	if err := l.newSegment(2); err != nil {
		t.Fatal(err)
	}
	putBatch(t, l, "k", 2, 2)
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	want("the end of a run")
	l.Close()
	l, _ = openLog(t, dir)
	want("the next run")
	l.Close()
}

// The storage of a batch, or a new session, that cannot be written is written before the
// next record: a later batch is never recorded without them.
func TestUnwrittenFacts(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir)
	a := putBatch(t, l, "k", 1, 1)
	b := putBatch(t, l, "k", 2, 2)
	s := l.segs[len(l.segs)-1]
	works := s.f
	broken, err := os.Open(works.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	s.f = broken
	if l.Done(a) == nil || l.Forget("s") == nil || l.WriteAgain() == nil {
		t.Error("records in a file that cannot be written: no error")
	}
	c := &Batch{Message: &producer.Message{Subject: "k", Incarnation: "J", Seq: 1}}
	if l.Put(c) == nil {
		t.Error("a batch in a file that cannot be written: no error")
	}
	s.f = works
	if err := l.Put(c); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l, left := openLog(t, dir)
	if len(left) != 2 || left[0].Message.Seq != b.Message.Seq || left[1].Message.Incarnation != "J" || l.Sessions.all["s"] != nil {
		t.Errorf("%d batches wait, the first %+v; the session is %v", len(left), left[0].Message, l.Sessions.all["s"])
	}
}

// The segments of an earlier run can be synced on Windows, which syncs only files that are
// open for writing.
func TestOldSegmentsAreOpenForWriting(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir)
	putBatch(t, l, "k", 1, 1)
	l.Close()
	l, _ = openLog(t, dir)
	if len(l.segs) != 2 {
		t.Fatalf("%d segments, want 2", len(l.segs))
	}
	if err := l.segs[0].f.Truncate(l.segs[0].size); err != nil {
		t.Error(err)
	}
}

// For any number of devices, the remembered state is bounded. The most recent devices
// are remembered.
func TestRemembersABoundedNumber(t *testing.T) {
	s := NewSessions(nil)
	s.most = 1000
	heard := 0
	for i := range 3000 { // 100 devices, of which two send as often as all others together
		device := i % 100
		if i%2 == 1 {
			device = i % 4
		}
		s.Add(Origin{fmt.Sprint(device), uint64(i), 7, 8, false, false}, nil)
		live := 0
		for _, one := range s.all {
			live += one.live
		}
		if live != s.live || live > s.most {
			t.Fatalf("%d messages are remembered, %d counted, at most %d wanted", live, s.live, s.most)
		}
		heard = max(heard, live)
	}
	if heard < s.most/2 {
		t.Errorf("only %d messages were ever remembered", heard)
	}
	if e, _ := s.Find(Origin{fmt.Sprint(2999 % 4), 2999, 7, 8, false, false}); e == nil {
		t.Error("the newest message is forgotten")
	}
	body := s.encodeSessions(nil)
	again := NewSessions(nil)
	again.decodeSessions(&reader{b: body}, func(uint64) (*Batch, bool) { return nil, false })
	if again.live != s.live || len(again.all) != len(s.all) {
		t.Errorf("%d messages of %d devices read, %d of %d written", again.live, len(again.all), s.live, len(s.all))
	}
	for _, name := range again.Names() {
		again.Forget(name)
	}
	if again.live != 0 {
		t.Errorf("%d messages of no device", again.live)
	}
}

// A message counts once, in any number of parts: all parts of the newest messages are
// remembered, also after a restart. The parts of a single device are bounded too.
func TestRemembersWholeMessages(t *testing.T) {
	s := NewSessions(map[string]int{"named": 1000})
	add := func(session string, id, parts uint64) {
		for part := range parts {
			s.Add(Origin{session, id, 7, part, false, false}, nil)
		}
	}
	for id := range uint64(1200) {
		add("s", id, 5)
		add("named", id, 3)
	}
	again := NewSessions(nil)
	again.decodeSessions(&reader{b: s.encodeSessions(nil)}, func(uint64) (*Batch, bool) { return nil, false })
	for _, s := range []*Sessions{s, again} {
		for _, c := range []struct {
			session      string
			first, parts uint64
		}{{"s", 1200 - Window, 5}, {"named", 200, 3}} {
			for id := range uint64(1200) {
				for part := range c.parts {
					if e, _ := s.Find(Origin{c.session, id, 7, part, true, false}); (e != nil) != (id >= c.first) {
						t.Fatalf("%s: part %d of message %d is remembered: %v", c.session, part, id, e != nil)
					}
				}
			}
		}
	}
	add("s", 1200, 2*Window) // more parts than messages of a session
	for part := range uint64(2 * Window) {
		if e, _ := s.Find(Origin{"s", 1200, 7, part, true, false}); e == nil {
			t.Fatalf("part %d of the newest message is forgotten", part)
		}
	}
	s = NewSessions(nil)
	s.most = 100
	for id := range uint64(30) {
		add("s", id, 40)
	}
	if e, _ := s.Find(Origin{"s", 29, 7, 39, true, false}); e == nil || s.live > s.most || s.live < 40 {
		t.Errorf("%d parts of one device are remembered, want at most %d; of the newest %v", s.live, s.most, e)
	}
}

// After an id that was used twice, an acknowledged message is no proof, until both uses
// are out of the window, also over a restart.
func TestReuseExpires(t *testing.T) {
	s := NewSessions(map[string]int{"broker": 1000})
	reopen := func() {
		again := NewSessions(s.window)
		again.decodeSessions(&reader{b: s.encodeSessions(nil)}, func(uint64) (*Batch, bool) { return nil, false })
		s = again
	}
	for session, window := range map[string]uint64{"s": Window, "broker": 1000} {
		add := func(id uint64) { s.Add(Origin{session, id, 7, 8, false, false}, nil) }
		known := func(id uint64) bool {
			_, known := s.Find(Origin{session, id, 7, 8, true, false})
			return known
		}
		for id := range uint64(100) {
			add(id)
		}
		if !known(99) {
			t.Fatalf("%s: the newest message is unknown", session)
		}
		add(90) // the device has restarted
		for i := uint64(1); i < window; i++ {
			if add(1000 + i); known(1000 + i) {
				t.Fatalf("%s: a message proves something %d messages after the reuse of an id", session, i)
			}
			if i == 100 {
				reopen()
			}
		}
		for i := range uint64(2 * window) {
			if add(1000 + window + i); !known(1000 + window + i) {
				t.Fatalf("%s: %d messages after the window no message is known", session, i)
			}
			if i == 10 {
				reopen()
			}
		}
	}
}

// A segment ends at its size; earlier segments are deleted when none of their batches
// waits. A batch that waits long does not keep all later segments.
func TestSegments(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir)
	stays, synced := putBatch(t, l, "stays", 1, 0), 0
	defer durable.Observe(func(durable.Step) { synced++ })()
	big := make([]byte, 1<<20)
	for i := range 60 {
		b := &Batch{Message: &producer.Message{Subject: "k", Incarnation: "I", Seq: uint64(i + 1), Payload: big}}
		if err := l.Put(b); err != nil {
			t.Fatal(err)
		}
		if err := l.Done(b); err != nil {
			t.Fatal(err)
		}
		if n, _ := segmentNumbers(dir); len(n) > spareSegments+1 {
			t.Fatalf("segments %v, and a single batch of %d bytes waits", n, stays.size)
		}
	}
	if synced == 0 {
		t.Error("the only record of a batch was deleted before its copy was synced")
	}
	l.Close()
	l, left := openLog(t, dir)
	if len(left) != 1 || left[0].Message.Subject != "stays" {
		t.Fatalf("%d batches wait", len(left))
	}
	if e, _ := l.Sessions.Find(Origin{"s", 0, 7, 8, true, false}); e == nil || e.Batch != left[0] {
		t.Errorf("the message that waits: %+v", e)
	}
	if err := l.Done(left[0]); err != nil {
		t.Fatal(err)
	}
	if n, _ := segmentNumbers(dir); len(n) != 1 {
		t.Errorf("segments %v, want one", n)
	}
}

// Batches that the server stores in any order, with restarts and copies of the log at any
// moment: the waiting batches return in order, with their bytes, and the log stays small.
func TestMovedBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	l, left := openLog(t, dir)
	seq, moved := uint64(0), 0
	home := map[uint64]int{} // by id: the number of the segment
	check := func(dir string, wait []*Batch) {
		t.Helper()
		again, left := openLog(t, dir)
		defer again.Close()
		if len(left) != len(wait) || again.Number("k").Seq != seq || again.damaged {
			t.Fatalf("%d batches wait, want %d; the number is %d, want %d; damaged %v", len(left), len(wait), again.Number("k").Seq, seq, again.damaged)
		}
		for i, b := range left {
			m := wait[i].Message
			p, err := again.Payload(b)
			if err != nil || b.Message.Seq != m.Seq || !b.Message.End || b.Message.Unreadable != "why" || string(p) != fmt.Sprint("k ", m.Seq) {
				t.Fatalf("batch %d is %+v with %q (%v), want number %d", i, b.Message, p, err, m.Seq)
			}
			if e, _ := again.Sessions.Find(Origin{"s", m.Seq, 7, 8, true, false}); m.Seq+Window > seq && (e == nil || e.Batch != b) {
				t.Fatalf("the message of number %d: %+v", m.Seq, e)
			}
		}
	}
	for step := range 200 {
		seq++
		b := &Batch{Message: &producer.Message{Subject: "k", Incarnation: "I", Seq: seq, End: true, Unreadable: "why", Payload: fmt.Appendf(nil, "k %d", seq)}}
		b.Add(Origin{"s", seq, 7, 8, false, false}, l.Sessions)
		killed := filepath.Join(t.TempDir(), "killed") // before segments were deleted
		if step%24 == 0 {
			copyFiles(t, killed, dir)
		}
		if err := l.Put(b); err != nil {
			t.Fatal(err)
		}
		left = append(left, b)
		if step%24 == 0 {
			copyFiles(t, killed, dir)
			check(killed, left)
			check(killed, left)
		}
		for len(left) > 0 && (rng.IntN(2) == 0 || len(left) > 40) {
			i := max(rng.IntN(len(left)), rng.IntN(len(left)))
			if err := l.Done(left[i]); err != nil {
				t.Fatal(err)
			}
			left = slices.Delete(left, i, i+1)
		}
		for _, b := range left {
			if home[b.id] != 0 && home[b.id] != b.seg.n {
				moved++
			}
			home[b.id] = b.seg.n
		}
		if step%8 == 0 {
			l.roll = 1
		}
		if step%90 == 0 {
			l.Close()
			check(dir, left)
			l, left = openLog(t, dir)
		}
		if n := len(l.segs); n > 2*spareSegments {
			t.Fatalf("step %d: %d segments, and %d batches wait", step, n, len(left))
		}
	}
	if moved < 20 {
		t.Errorf("%d batches were moved", moved)
	}
}

// copyFiles copies the files of a directory, and keeps other files.
func copyFiles(t *testing.T, to, from string) {
	t.Helper()
	names, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err := errors.Join(err, os.MkdirAll(to, 0o700), os.WriteFile(filepath.Join(to, e.Name()), b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// Devices that repeatedly begin a session do not grow the log.
func TestForgetRolls(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir)
	l.roll = 4 << 10
	for i := range 1000 {
		l.Sessions.Add(Origin{"s", uint64(i), 7, 8, false, false}, nil)
		if err := l.Forget("s"); err != nil {
			t.Fatal(err)
		}
		if err := l.Forget("unknown"); err != nil {
			t.Fatal(err)
		}
		l.roll = 4 << 10
	}
	size := int64(0)
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 8<<10 {
		t.Errorf("%d bytes in %d files for nothing that is remembered", size, len(names))
	}
}

// Of more subjects than the limit, the most recently numbered are kept, also over
// restarts.
func TestNumbersAreBounded(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir)
	l.most = 10
	for i := range 30 {
		putBatch(t, l, fmt.Sprint("k", i), 1, uint64(i))
	}
	putBatch(t, l, "k3", 2, 99)
	if err := l.newSegment(7); err != nil {
		t.Fatal(err)
	}
	for life := range 2 {
		var kept []string
		for subject := range l.numbers {
			kept = append(kept, subject)
		}
		slices.Sort(kept)
		if fmt.Sprint(kept) != "[k21 k22 k23 k24 k25 k26 k27 k28 k29 k3]" || l.Number("k3").Seq != 2 {
			t.Errorf("life %d: kept are %v", life, kept)
		}
		for _, b := range l.waiting {
			if err := l.Done(b); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
		l, _ = openLog(t, dir)
	}
	l.most = 10
	for i := range 5 { // the ids of batches begin at 1
		putBatch(t, l, fmt.Sprint("new", i), 1, uint64(i))
	}
	if err := l.newSegment(20); err != nil {
		t.Fatal(err)
	}
	if kept := slices.Sorted(maps.Keys(l.numbers)); fmt.Sprint(kept) != "[k26 k27 k28 k29 k3 new0 new1 new2 new3 new4]" {
		t.Errorf("in the next run, kept are %v", kept)
	}
}

// Numbers are in doubt after another start of the machine, unless the previous run has
// ended in order; later numbers are not.
func TestDoubt(t *testing.T) {
	for _, c := range []struct {
		name               string
		end, another, want bool
	}{{"killed", false, false, false}, {"power loss", false, true, true}, {"ended", true, true, false}} {
		dir := t.TempDir()
		l, _ := openLog(t, dir)
		putBatch(t, l, "a", 5, 1)
		if c.end {
			if err := l.End(); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
		if c.another {
			for _, name := range []string{"outbox-1"} {
				otherBoot(t, filepath.Join(dir, name))
			}
		}
		known := bootID() != ""
		for life := range 3 {
			l, _ = openLog(t, dir)
			if n := l.Number("a"); n.Doubt != c.want && (known || c.end) || n.Seq != 5 {
				t.Errorf("%s, life %d: %+v, want doubt %v", c.name, life, n, c.want)
			}
			putBatch(t, l, fmt.Sprint("new", life), 1, uint64(life))
			if n := l.Number(fmt.Sprint("new", life)); n.Doubt {
				t.Errorf("%s: a number given now: %+v", c.name, n)
			}
			l.Close()
		}
	}
}

// otherBoot turns a segment into a segment of another start of the machine.
func otherBoot(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	id := []byte(bootID())
	at := bytes.Index(b, id)
	if len(id) == 0 || at < 0 {
		return
	}
	b[at] ^= 1
	body := b[len(magic):]
	n := binary.LittleEndian.Uint32(body)
	sealRecord(body[:headBytes+n])
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	l, _ := openLog(f, dir)
	a := putBatch(f, l, "a", 1, 1)
	putBatch(f, l, "b", 1, 2)
	l.Done(a)
	l.Forget("s")
	l.Close()
	for _, n := range []string{"outbox-1"} {
		b, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[len(magic):])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := t.TempDir()
		if err := os.WriteFile(filepath.Join(d, "outbox-1"), slices.Concat(magic, b), 0o600); err != nil {
			t.Fatal(err)
		}
		l, left, err := Open(d, nil, nowhere)
		if err != nil {
			return
		}
		defer l.Close()
		for _, b := range left {
			if _, err := l.Payload(b); err != nil {
				t.Error(err)
			}
		}
	})
}
