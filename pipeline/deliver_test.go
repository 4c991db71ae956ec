package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// mixed makes the packets of recordings, interleaved.
func mixed(streams []recording, seed uint64) (packets []packet, sent map[string][]packet) {
	rng := rand.New(rand.NewPCG(seed, 1))
	sent = map[string][]packet{}
	var lists [][]packet
	for _, r := range streams {
		sent[r.name] = r.split(rng)
		lists = append(lists, sent[r.name])
	}
	return interleave(rng, lists), sent
}

// Stopped in the middle and started again, with other shards and batches, the
// stage says what an uninterrupted one says: nothing twice, nothing lost,
// every bit equal.
func TestRestart(t *testing.T) {
	for name, policy := range map[string]reservoir.Policy{
		"marked": {Kind: reservoir.Marked, Early: 3},
		"window": {Kind: reservoir.Window, Length: 10, Hop: 2},
		"gap":    {Kind: reservoir.Gap, Gap: 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams := recordings(30, 80)
			packets, sent := mixed(streams, 8)
			m := testModel(t, 3, policy)
			b := newRig(t)
			c := Config{Job: "again", Partitions: 6, Shards: 2, RowBudget: 40}
			at := 0
			for i, share := range []int{3, 2, 1} {
				c.Shards, c.RowBudget = 1+i, 20+100*i
				r := b.start(m, c)
				to := at + (len(packets)-at)/share
				b.publish(packets[at:to])
				// Stop somewhere in it, not at its end: what is in hand then
				// must neither be lost nor said twice.
				if share > 1 {
					r.until(t, "some predictions", func(s Stats) bool { return s.Predictions > 5 })
				} else {
					b.settle(r, len(packets))
				}
				if s := r.counters.Stats(); i > 0 && s.Replayed != 0 {
					t.Errorf("%d messages replayed after a stop in order", s.Replayed)
				}
				r.stop(t)
				at = to
			}
			same(t, b.predictions("again"), direct(t, m, streams, sent))
		})
	}
}

// Whatever was published survives the server too.
func TestServerRestartUnderStage(t *testing.T) {
	streams := recordings(10, 60)
	packets, sent := mixed(streams, 4)
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	dir := t.TempDir()
	b := newRigAt(t, dir)
	r := b.start(m, Config{Job: "srv", Partitions: 3})
	b.publish(packets[:len(packets)/2])
	b.settle(r, len(packets)/2)
	r.stop(t)
	b.nc.Close()
	b.srv.Close()
	b = newRigAt(t, dir)
	r = b.start(m, Config{Job: "srv", Partitions: 3})
	b.publish(packets[len(packets)/2:])
	b.settle(r, len(packets))
	r.stop(t)
	same(t, b.predictions("srv"), direct(t, m, streams, sent))
}

// Messages that come twice count once.
func TestDuplicates(t *testing.T) {
	streams := recordings(6, 50)
	packets, sent := mixed(streams, 2)
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	r := b.start(m, Config{Job: "dup", Partitions: 3})
	var doubled []packet
	for i, p := range packets {
		doubled = append(doubled, p)
		if i%3 == 0 {
			doubled = append(doubled, p)
		}
		if i > 20 && i%7 == 0 {
			doubled = append(doubled, packets[i-20]) // an old one
		}
	}
	b.publish(doubled)
	s := b.settle(r, len(doubled))
	r.stop(t)
	same(t, b.predictions("dup"), direct(t, m, streams, sent))
	if want := uint64(len(doubled) - len(packets)); s.Duplicates != want || s.Gaps != 0 {
		t.Errorf("%d duplicates and %d gaps counted, want %d and 0", s.Duplicates, s.Gaps, want)
	}
}

// one makes a message of n samples of the value v.
func one(key string, seq uint64, n int, v float32, end bool) packet {
	p := packet{key: key, seq: seq, batch: codec.Batch{Rows: n, X: slices.Repeat([]float32{v, -v}, n)}, header: map[string]string{}}
	if end {
		p.header[HeaderEnd] = "true"
	}
	return p
}

// flags of a stream's predictions in order, as text.
func flags(ps []codec.Prediction) string {
	var s []string
	for _, p := range ps {
		s = append(s, fmt.Sprintf("%d.%d:%v", p.Seq, p.Row, p.Flags))
	}
	return strings.Join(s, " ")
}

// A missing message flags its sequence, the next one is clean again; bad
// messages go to the dead letters with their reason and disturb nobody else.
func TestGapsAndDeadLetters(t *testing.T) {
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	r := b.start(m, Config{Job: "bad", Partitions: 2, Reorder: -1})
	nan := one("nan", 2, 2, 1, false)
	nan.batch.X = []float32{1, 2, float32Nan, 4}
	huge := one("huge", 2, 1, 1e20, false)
	crc := one("crc", 2, 2, 2, false)
	crc.header[HeaderCRC] = "00000001"
	wrong := packet{key: "wrong", seq: 2, raw: []byte("this is not Arrow")}
	number := one("number", 0, 1, 1, false)
	number.header[HeaderSeq] = "twelve"
	zero := one("number", 0, 1, 1, false)
	zero.header[HeaderSeq] = "0"
	okCRC := one("crc", 4, 1, 1, true)
	okCRC.header[HeaderCRC] = fmt.Sprintf("%08x", codec.CRC(okCRC.payload(t)))
	var packets []packet
	add := func(p ...packet) { packets = append(packets, p...) }
	for _, k := range []string{"gap", "nan", "huge", "crc", "wrong", "number", "clean"} {
		add(one(k, 1, 3, 0.5, false))
	}
	add(one("gap", 3, 2, 0.5, true), one("gap", 4, 1, 0.5, true))
	add(nan, one("nan", 3, 2, 0.5, true), one("nan", 4, 1, 1, true))
	add(huge, one("huge", 3, 2, 0.5, true))
	add(crc, one("crc", 3, 2, 0.5, true), okCRC)
	add(wrong, one("wrong", 3, 2, 0.5, true))
	add(number, zero, one("number", 2, 2, 0.5, true))
	add(one("late", 5, 1, 0.5, true)) // first seen at 5: its beginning is missing
	add(one("clean", 2, 2, 0.5, true))
	b.publish(packets)
	s := b.settle(r, len(packets))
	r.stop(t)
	got := b.predictions("bad")
	for k, want := range map[string]string{
		"gap": "3.1:gap 4.0:", "nan": "3.1:poison-skipped 4.0:", "huge": "3.1:poison-skipped", "crc": "3.1:poison-skipped 4.0:",
		"wrong": "3.1:poison-skipped", "number": "2.1:poison-skipped", "late": "5.0:gap", "clean": "2.1:",
	} {
		if g := flags(got[k]); g != want {
			t.Errorf("stream %s: predictions %q, want %q", k, g, want)
		}
	}
	// A skipped message leaves no trace in the state: five equal samples.
	if !sameBits(got["nan"][0].Scores, got["clean"][0].Scores) {
		t.Error("a skipped message changed the state")
	}
	dead := b.deadLetters("bad")
	if len(dead) != 6 || s.DeadLetters != 6 || s.Gaps != 2 {
		t.Fatalf("%d dead letters, counted %d, gaps %d; want 6, 6, 2", len(dead), s.DeadLetters, s.Gaps)
	}
	for _, want := range []string{"NaN", "1e+20", "CRC-32C", "codec: ", `"twelve"`, `"0"`} {
		if !slices.ContainsFunc(dead, func(d DeadLetter) bool { return strings.Contains(d.Reason, want) }) {
			t.Errorf("no dead letter says %q", want)
		}
	}
	i := slices.IndexFunc(dead, func(d DeadLetter) bool { return string(d.Data) == "this is not Arrow" })
	if i < 0 || dead[i].Header.Get(HeaderSeq) != "2" || !strings.HasSuffix(dead[i].Subject, ".wrong") || dead[i].InSeq == 0 {
		t.Errorf("the original bytes, headers and place are not in a dead letter: %+v", dead)
	}
}

// What was skipped stays skipped: every later prediction of the sequence says
// so, after a restart too, and the next sequence is complete.
func TestIntegrityLasts(t *testing.T) {
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 2})
	b := newRig(t)
	c := Config{Job: "lasts", Partitions: 1}
	r := b.start(m, c)
	bad := packet{key: "a", seq: 2, raw: []byte("this is not Arrow")}
	b.publish([]packet{one("a", 1, 2, 1, false), bad, one("a", 3, 2, 1, false)})
	b.settle(r, 3)
	r.crash(t)
	b.expire("lasts")
	r = b.start(m, c)
	b.publish([]packet{one("a", 4, 2, 1, false), one("a", 5, 1, 1, true), one("a", 6, 2, 1, false), one("a", 7, 1, 1, true)})
	got := b.await("lasts", 6)["a"]
	r.stop(t)
	var said []string
	for _, p := range got {
		said = append(said, fmt.Sprintf("%d:%s", p.Seq, p.Flags.Integrity()))
	}
	const want = "1:early 3:poison-skipped 4:poison-skipped 5:poison-skipped 6:early 7:complete"
	if text := strings.Join(said, " "); text != want {
		t.Errorf("integrity %q, want %q", text, want)
	}
}

// Dead letters are not written again by the replay of a restart.
func TestDeadLettersOnce(t *testing.T) {
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	for run := range 2 {
		r := b.start(m, Config{Job: "dlq", Partitions: 1, StopTimeout: 50 * time.Millisecond})
		if run == 0 {
			b.publish([]packet{{key: "a", seq: 1, raw: []byte("x")}, one("a", 2, 1, 1, false)})
		}
		b.settle(r, 2)
		if run == 0 {
			r.crash(t) // so that there is something to replay
			b.expire("dlq")
			continue
		}
		if s := r.counters.Stats(); s.Replayed == 0 {
			t.Error("nothing was replayed after a crash")
		}
		r.stop(t)
	}
	if dead := b.deadLetters("dlq"); len(dead) != 1 {
		t.Fatalf("%d dead letters, want 1", len(dead))
	}
}

// After a stop in order the states are in snapshots: they need no input.
func TestRestartWithoutHistory(t *testing.T) {
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := Config{Job: "cut", Partitions: 1}
	r := b.start(m, c)
	b.publish([]packet{one("a", 1, 3, 1, true), one("a", 2, 3, 1, false), one("n", 0, 1, 1, true)})
	b.settle(r, 3)
	r.stop(t)
	in, err := b.js.Stream(t.Context(), inputStream("cut"))
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = b.start(m, c)
	b.publish([]packet{one("a", 3, 1, 1, true), one("a", 4, 1, 1, true), one("new", 1, 1, 1, true), one("n", 0, 1, 1, true)})
	b.settle(r, 4)
	r.stop(t)
	got := b.predictions("cut")
	for k, want := range map[string]string{"a": "1.2: 3.0: 4.0:", "new": "1.0:", "n": "0.0: 0.0:"} {
		if g := flags(got[k]); g != want {
			t.Errorf("stream %s: %q, want %q", k, g, want)
		}
	}
	exp := newLone(t, m, Config{}).feedAll(one("a", 1, 4, 1, true))[0]
	if !sameBits(got["a"][1].Scores, exp.Scores) {
		t.Error("the open sequence's state did not survive")
	}
}

// A job whose input has lost its beginning unread says so in what may be
// incomplete.
func TestInputBeginsLate(t *testing.T) {
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := Config{Job: "late", Partitions: 1}
	b.start(m, c).stop(t)
	b.publish([]packet{one("n", 0, 1, 1, true)})
	in, err := b.js.Stream(t.Context(), inputStream("late"))
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := b.start(m, c)
	b.publish([]packet{one("new", 1, 1, 1, true), one("n", 0, 1, 1, true), one("n", 0, 1, 1, true)})
	b.settle(r, 3)
	r.stop(t)
	got := b.predictions("late")
	if n, w := flags(got["n"]), flags(got["new"]); n != "0.0:gap 0.0:" || w != "1.0:" {
		t.Errorf("predictions %q and %q", n, w)
	}
}

// Messages of many streams, rows interleaved, give what the streams' own
// messages give.
func TestMultiStreamMessages(t *testing.T) {
	streams := recordings(9, 60)
	for _, policy := range []reservoir.Policy{{Kind: reservoir.Marked, Early: 7}, {Kind: reservoir.Gap, Gap: 5 * time.Millisecond}, {Kind: reservoir.Window, Length: 6, Hop: 3}} {
		m := testModel(t, 3, policy)
		b := newRig(t)
		r := b.start(m, Config{Job: "multi", Partitions: 3})
		rng := rand.New(rand.NewPCG(6, 6))
		var packets []packet
		places := map[string][]packet{} // one per row, to say where it went
		at := make([]int, len(streams))
		for left := true; left; {
			p := packet{key: "gateway", seq: uint64(len(packets) + 1)}
			index := map[string]int32{}
			left = false
			for range 40 {
				i := rng.IntN(len(streams))
				s := &streams[i]
				if at[i] == len(s.times) {
					continue
				}
				k, ok := index[s.name]
				if !ok {
					k = int32(len(index))
					index[s.name] = k
					p.batch.Keys = append(p.batch.Keys, s.name)
				}
				p.batch.Key = append(p.batch.Key, k)
				p.batch.X = append(p.batch.X, s.x[2*at[i]:2*at[i]+2]...)
				p.batch.Times = append(p.batch.Times, s.times[at[i]])
				p.batch.Ends = append(p.batch.Ends, s.ends[at[i]])
				places[s.name] = append(places[s.name], packet{seq: p.seq, batch: codec.Batch{Rows: p.batch.Rows + 1}})
				p.batch.Rows++
				at[i]++
			}
			for i := range streams {
				left = left || at[i] < len(streams[i].times)
			}
			if p.batch.Rows > 0 {
				packets = append(packets, p)
			}
		}
		b.publish(packets)
		b.settle(r, len(packets))
		r.stop(t)
		exp := direct(t, m, streams, nil)
		for name, ps := range exp { // direct cannot know the places
			for i := range ps {
				row := slices.Index(streams[index(t, streams, name)].times, ps[i].Time)
				ps[i].Seq, ps[i].Row = places[name][row].seq, uint32(places[name][row].batch.Rows-1)
			}
		}
		same(t, b.predictions("multi"), exp)
	}
}

func index(t *testing.T, streams []recording, name string) int {
	t.Helper()
	i := slices.IndexFunc(streams, func(r recording) bool { return r.name == name })
	if i < 0 {
		t.Fatalf("no stream %s", name)
	}
	return i
}

// The commit point survives a server that goes away in the middle.
func TestServerAway(t *testing.T) {
	dir := t.TempDir()
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	srv, err := StartServer(ServerOptions{Dir: dir, Port: RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	port := srv.ns.Addr().(*net.TCPAddr).Port
	b := rigOf(t, srv)
	b.url = srv.URL()
	streams := recordings(8, 60)
	packets, sent := mixed(streams, 12)
	r := b.start(m, Config{Job: "away", Partitions: 2})
	b.publish(packets[:len(packets)/2])
	srv.Close() // whatever is in hand has no answer now
	if srv, err = StartServer(ServerOptions{Dir: dir, Port: port}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	b2 := rigOf(t, srv)
	b2.publish(packets[len(packets)/2:])
	b2.settle(r, len(packets))
	r.stop(t)
	same(t, b2.predictions("away"), direct(t, m, streams, sent))
}

// A stop while the server is away ends in time, whatever is in hand and
// however many partitions there are, and is no alarm: nothing is lost.
func TestStopWithoutServer(t *testing.T) {
	srv, err := StartServer(ServerOptions{Dir: t.TempDir(), Port: RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	b := rigOf(t, srv)
	book := &logBook{}
	b.url, b.log = srv.URL(), book.logger()
	packets, _ := mixed(recordings(64, 60), 12)
	c := Config{Job: "gone", Partitions: 32, StopTimeout: 500 * time.Millisecond}
	r := b.start(testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
	b.publish(packets)
	srv.Close()
	time.Sleep(1500 * time.Millisecond) // consumers now look for the server, some under their lock
	begin := time.Now()
	r.cancel()
	if err := r.wait(t); err != nil {
		t.Errorf("stopping without a server: %v", err)
	}
	// What is in hand, and the consumers; the rest is a busy machine.
	if took := time.Since(begin); took > c.StopTimeout+leaveDeadline+2*time.Second {
		t.Errorf("it took %v", took)
	}
	if book.lines("STOPPED") > 0 || book.lines("stopped before the server answered") != 1 {
		t.Errorf("what the stage said:\n%s", book.text.String())
	}
}

// A question ends with the connection it was asked on; the next one is asked
// on the next.
func TestAttemptEndsWithConnection(t *testing.T) {
	dir := t.TempDir()
	srv, err := StartServer(ServerOptions{Dir: dir, Port: RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { srv.Close() }()
	nc, err := Connect(NATSOptions{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	l := follow(nc)
	over := func(ctx context.Context) bool {
		select {
		case <-ctx.Done():
			return true
		case <-time.After(commitTimeout / 2):
			return false
		}
	}
	asked, cancel := l.attempt(t.Context())
	defer cancel()
	if asked.Err() != nil {
		t.Fatal("an attempt on a good connection ends at once")
	}
	port := srv.ns.Addr().(*net.TCPAddr).Port
	srv.Close()
	if !over(asked) {
		t.Fatal("the connection is gone, the question still waits")
	}
	if srv, err = StartServer(ServerOptions{Dir: dir, Port: port}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); !nc.IsConnected(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no reconnection")
		}
	}
	again, cancel := l.attempt(t.Context())
	defer cancel()
	if again.Err() != nil {
		t.Fatal("an attempt on the new connection ends at once")
	}
	nc.Close()
	if !over(again) {
		t.Fatal("the connection is closed, the question still waits")
	}
}

// A full input pushes back to the publisher, and nothing stored is lost.
func TestInputFull(t *testing.T) {
	b := newRig(t)
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	r := b.start(m, Config{Job: "full", Partitions: 1, InputMaxBytes: 64 << 10})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	got, err := Publisher{Channels: m.Channels}.Publish(ctx, b.nc, &items{list: []Item{{Stream: "a", X: make([]float32, 1<<16), End: true}}})
	if !errors.Is(err, context.DeadlineExceeded) || got.Retries == 0 || got.Messages == 0 {
		t.Fatalf("publishing 512 kB into 64 kB: %+v, %v", got, err)
	}
	if s := b.settle(r, int(got.Messages)); s.Rows != got.Rows || s.Gaps != 0 {
		t.Errorf("published %+v, stage saw %+v", got, s)
	}
	r.stop(t)
}
