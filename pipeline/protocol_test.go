package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// quick is a job with leases and snapshots as short as tests are.
func quick(job string, partitions int) Config {
	return Config{Job: job, Partitions: partitions, Lease: 600 * time.Millisecond, SnapshotMessages: 7, StopTimeout: 300 * time.Millisecond}
}

// await waits until a job has put out so many predictions.
func (b *rig) await(job string, n int) map[string][]codec.Prediction {
	b.t.Helper()
	var got map[string][]codec.Prediction
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		total := 0
		got = b.predictions(job)
		for _, ps := range got {
			total += len(ps)
		}
		if total >= n {
			return got
		}
	}
	b.t.Fatalf("%d predictions did not come within %v", n, patience)
	return nil
}

func count(m map[string][]codec.Prediction) (n int) {
	for _, ps := range m {
		n += len(ps)
	}
	return n
}

// last is a partition's record.
func (b *rig) last(job string, p int) (*jetstream.RawStreamMsg, record) {
	b.t.Helper()
	out, err := b.js.Stream(context.Background(), outputStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := out.GetLastMsgForSubject(context.Background(), outputSubject(job, p))
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := parseRecord(raw)
	if err != nil {
		b.t.Fatal(err)
	}
	return raw, r
}

// Killed again and again, between any two batches, with producers that repeat
// and reorder: every prediction is the uninterrupted run's, bit for bit.
func TestCrashes(t *testing.T) {
	for name, policy := range map[string]reservoir.Policy{
		"marked": {Kind: reservoir.Marked, Early: 5},
		"window": {Kind: reservoir.Window, Length: 10, Hop: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams := recordings(20, 120)
			packets, sent := mixed(streams, 21)
			m := testModel(t, 3, policy)
			exp := direct(t, m, streams, sent)
			b := newRig(t)
			c := quick("crash", 4)
			shuffled := disorder(packets, rand.New(rand.NewPCG(4, 2)))
			for i := 0; i < 5; i++ {
				c.Shards, c.RowBudget = 1+i%2, 5+20*i
				r := b.start(m, c)
				from, to := i*len(shuffled)/5, (i+1)*len(shuffled)/5
				b.publish(shuffled[from:to])
				if i == 4 {
					got := b.await("crash", count(exp))
					r.stop(t)
					same(t, clean(got, codec.FlagReordered), exp)
					return
				}
				time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				r.crash(t)
				b.expire("crash")
			}
		})
	}
}

// disorder repeats some messages and sends some late, never more than the
// stage holds.
func disorder(packets []packet, rng *rand.Rand) []packet {
	var out []packet
	late := map[string]packet{}
	for _, p := range packets {
		if l, ok := late[p.key]; ok && p.seq > l.seq+2 {
			out = append(out, l)
			delete(late, p.key)
		}
		switch _, waiting := late[p.key]; {
		case !waiting && rng.IntN(6) == 0:
			late[p.key] = p
			continue
		case rng.IntN(5) == 0:
			out = append(out, p)
		}
		out = append(out, p)
	}
	for _, l := range late {
		out = append(out, l)
	}
	return out
}

// clean leaves a flag out of a comparison.
func clean(all map[string][]codec.Prediction, f codec.Flag) map[string][]codec.Prediction {
	for _, ps := range all {
		for i := range ps {
			ps[i].Flags &^= f
		}
	}
	return all
}

// Two workers share a job, a third comes, the first is killed, another is
// stopped: partitions move, nothing is lost, doubled or changed.
func TestScaleOutAndIn(t *testing.T) {
	streams := recordings(24, 150)
	packets, sent := mixed(streams, 33)
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	exp := direct(t, m, streams, sent)
	b := newRig(t)
	c := quick("scale", 8)
	part := func(i int) { b.publish(packets[i*len(packets)/5 : (i+1)*len(packets)/5]) }
	w1 := b.start(m, c)
	part(0)
	w2 := b.start(m, c)
	part(1)
	w1.until(t, "half of the partitions", func(s Stats) bool { return s.Owned == 4 })
	w2.until(t, "the other half", func(s Stats) bool { return s.Owned == 4 })
	w3 := b.start(m, c)
	part(2)
	w1.crash(t)
	part(3)
	w2.stop(t)
	part(4)
	w3.until(t, "all partitions", func(s Stats) bool { return s.Owned == 8 })
	got := b.await("scale", count(exp))
	w3.stop(t)
	same(t, got, exp)
	for p := range 8 {
		if _, r := b.last("scale", p); r.kind != kindReleased || r.epoch < 2 {
			t.Errorf("partition %d ends with %+v, want a release after at least two claims", p, r)
		}
	}
}

// A worker that is overtaken while it holds a batch back cannot commit it any
// more; what the other says stands.
func TestZombieIsFenced(t *testing.T) {
	streams := recordings(6, 100)
	packets, sent := mixed(streams, 5)
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	exp := direct(t, m, streams, sent)
	b := newRig(t)
	c := quick("zombie", 1)
	asleep, wake := make(chan struct{}), make(chan struct{})
	calls := 0
	z := b.startWith(m, c, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := generic(net, slots)
		return &sleeper{Engine: e, before: func() {
			if calls++; calls == 5 {
				close(asleep)
				<-wake
			}
		}}, err
	})
	b.publish(packets[:len(packets)/2])
	<-asleep
	_, before := b.last("zombie", 0)
	out, err := b.js.Stream(t.Context(), outputStream("zombie"))
	if err != nil {
		t.Fatal(err)
	}
	other := &committer{js: b.js, stream: out, job: "zombie", worker: "other", log: b.log, retries: func() {}}
	empty, err := (&run{meta: codec.PredictionMeta{Labels: []string{"a", "b"}}}).newEmpty()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.claim(t.Context(), empty, func(record) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if other.epoch != before.epoch+1 || other.position != before.position {
		t.Errorf("claimed %+v after %+v", other.record, before)
	}
	close(wake)
	b.publish(packets[len(packets)/2:])
	z.until(t, "fencing", func(s Stats) bool { return s.Fenced == 1 })
	got := b.await("zombie", count(exp)) // it has claimed the partition again by then
	z.stop(t)
	same(t, got, exp)
	if _, r := b.last("zombie", 0); r.epoch != before.epoch+2 {
		t.Errorf("epoch %d, want %d", r.epoch, before.epoch+2)
	}
}

type sleeper struct {
	reservoir.Engine
	before func()
}

func (s *sleeper) Advance(x []float32, runs []reservoir.Run, scores []float32) error {
	s.before()
	return s.Engine.Advance(x, runs, scores)
}

// Whatever is wrong with what a restart begins from, the partition stops with
// a message that says what to do, and nothing is predicted.
func TestDamageStops(t *testing.T) {
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	rewrite := func(b *rig, edit func(h nats.Header)) {
		raw, _ := b.last("hurt", 0)
		edit(raw.Header)
		raw.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
		if _, err := b.js.PublishMsg(context.Background(), &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}); err != nil {
			b.t.Fatal(err)
		}
	}
	object := func(b *rig) (jetstream.ObjectStore, string) {
		s, err := b.js.ObjectStore(context.Background(), snapshotBucket("hurt"))
		if err != nil {
			b.t.Fatal(err)
		}
		_, r := b.last("hurt", 0)
		return s, r.snap
	}
	input := func(b *rig) jetstream.Stream {
		s, err := b.js.Stream(context.Background(), inputStream("hurt"))
		if err != nil {
			b.t.Fatal(err)
		}
		return s
	}
	must := func(b *rig, err error) {
		if err != nil {
			b.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		hurt func(b *rig)
		says []string
	}{
		"snapshot deleted": {func(b *rig) { s, n := object(b); must(b, s.Delete(context.Background(), n)) }, []string{"lost", "restore the store"}},
		"snapshot flipped": {func(b *rig) {
			s, n := object(b)
			data, err := s.GetBytes(context.Background(), n)
			must(b, err)
			data[len(data)/2] ^= 4
			_, err = s.PutBytes(context.Background(), n, data)
			must(b, err)
		}, []string{"sha256", "damaged"}},
		"a snapshot's pieces gone": {func(b *rig) {
			s, n := object(b)
			info, err := s.GetInfo(context.Background(), n)
			must(b, err)
			bucket, err := b.js.Stream(context.Background(), "OBJ_"+snapshotBucket("hurt"))
			must(b, err)
			must(b, bucket.Purge(context.Background(), jetstream.WithPurgeSubject("$O."+snapshotBucket("hurt")+".C."+info.NUID)))
		}, []string{"lost", "0 of 1 are there", "restore the store"}},
		"a snapshot's piece flipped": {func(b *rig) {
			s, n := object(b)
			info, err := s.GetInfo(context.Background(), n)
			must(b, err)
			data, err := s.GetBytes(context.Background(), n)
			must(b, err)
			data[len(data)/2] ^= 4
			subject := "$O." + snapshotBucket("hurt") + ".C." + info.NUID
			bucket, err := b.js.Stream(context.Background(), "OBJ_"+snapshotBucket("hurt"))
			must(b, err)
			must(b, bucket.Purge(context.Background(), jetstream.WithPurgeSubject(subject)))
			_, err = b.js.Publish(context.Background(), subject, data)
			must(b, err)
		}, []string{"lost", "digest", "restore the store"}},
		"digest edited": {func(b *rig) {
			rewrite(b, func(h nats.Header) { h.Set(headerDigest, strings.Repeat("0", 32)) })
		}, []string{"digest", "nothing is predicted from a wrong state"}},
		"position edited": {func(b *rig) {
			rewrite(b, func(h nats.Header) { h.Set(headerInSeq, "999999") })
		}, []string{"lost its tail"}},
		"header garbled": {func(b *rig) {
			rewrite(b, func(h nats.Header) { h.Set(headerEpoch, "three") })
		}, []string{"Eusn-Epoch", "restore the job's streams"}},
		"snapshot of another place": {func(b *rig) {
			_, r := b.last("hurt", 0)
			rewrite(b, func(h nats.Header) { h.Set(headerSnapSeq, fmt.Sprint(r.snapSeq-1)) })
		}, []string{"the record says"}},
		"input recreated": {func(b *rig) {
			cfg := input(b).CachedInfo().Config
			must(b, b.js.DeleteStream(context.Background(), cfg.Name))
			_, err := b.js.CreateStream(context.Background(), cfg)
			must(b, err)
		}, []string{"deleted and made anew", "new job name"}},
		"input purged": {func(b *rig) { must(b, input(b).Purge(context.Background())) }, []string{"begins at message", "keep more input"}},
		"one input message removed": {func(b *rig) {
			_, r := b.last("hurt", 0)
			must(b, input(b).DeleteMsg(context.Background(), r.snapSeq+1))
		}, []string{"digest", "removed or changed"}},
		"last input message removed": {func(b *rig) {
			_, r := b.last("hurt", 0)
			must(b, input(b).DeleteMsg(context.Background(), r.mark.seq))
		}, []string{"was deleted"}},
		"clock moved": {func(b *rig) { // another history with the same numbers
			_, r := b.last("hurt", 0)
			rewrite(b, func(h nats.Header) { h.Set(headerInTime, fmt.Sprint(r.mark.time-int64(time.Hour))) })
		}, []string{"was stored", "restored backup"}},
		"input gone": {func(b *rig) { must(b, b.js.DeleteStream(context.Background(), inputStream("hurt"))) }, []string{"deleted and made anew"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			conf := quick("hurt", 1)
			r := b.start(m, conf)
			var packets []packet
			for i := range 12 { // each ends a sequence, so that each is committed
				packets = append(packets, one("a", uint64(i+1), 2, float32(i)/9, true))
			}
			b.publish(packets[:8])
			r.until(t, "a snapshot", func(s Stats) bool { return s.Snapshots > 0 && s.Predictions == 8 })
			b.publish(packets[8:])
			r.until(t, "all predictions", func(s Stats) bool { return s.Predictions == 12 })
			r.crash(t)
			b.expire("hurt")
			if _, rec := b.last("hurt", 0); rec.snap == "" || rec.snapSeq >= rec.inSeq {
				t.Fatalf("no snapshot with messages after it to begin from: %+v", rec)
			}
			c.hurt(b)
			s := Stage{Config: conf, Model: m, NewEngine: generic, Dial: b.dial, Log: b.log}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			mentions(t, s.Run(ctx), c.says...)
			if ctx.Err() != nil {
				t.Fatal("it went on")
			}
			raw, _ := b.js.Stream(t.Context(), outputStream("hurt"))
			msg, err := raw.GetLastMsgForSubject(t.Context(), outputSubject("hurt", 0))
			if err != nil {
				t.Fatal(err)
			}
			if _, ps, err := codec.DecodePredictions(msg.Data); err == nil && len(ps) > 0 && msg.Header.Get(headerKind) != kindCommit {
				t.Errorf("something was predicted: %v", ps)
			}
		})
	}
}

// One stopped partition does not stop the others.
func TestOneStoppedOthersGoOn(t *testing.T) {
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quick("partly", 4)
	r := b.start(m, c)
	var packets []packet
	for i := range 16 {
		packets = append(packets, one(fmt.Sprintf("k%d", i), 1, 2, 1, true))
	}
	b.publish(packets)
	b.settle(r, 16)
	r.stop(t)
	if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: outputSubject("partly", 2), Data: []byte("?")}); err != nil {
		t.Fatal(err)
	}
	r = b.start(m, c)
	for i := range packets {
		packets[i].seq = 2
	}
	b.publish(packets)
	r.until(t, "a stopped partition", func(s Stats) bool { return s.Stopped == 1 && s.Owned == 3 && s.Predictions > 4 })
	r.cancel()
	mentions(t, r.wait(t), "partly.out.2", "something else publishes there")
}
