package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// For any damage to the data of a restart, the partition stops with a message that
// names the remedy, and nothing is predicted.
func TestDamageStops(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	rewrite := func(b *rig, edit func(h nats.Header)) {
		raw, _ := b.lastRecord("hurt", 0)
		edit(raw.Header)
		raw.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
		if _, err := b.js.PublishMsg(context.Background(), &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}); err != nil {
			b.t.Fatal(err)
		}
	}
	object := func(b *rig) (jetstream.ObjectStore, string) {
		s, err := b.js.ObjectStore(context.Background(), wire.SnapshotBucket("hurt"))
		if err != nil {
			b.t.Fatal(err)
		}
		_, r := b.lastRecord("hurt", 0)
		return s, r.Snap
	}
	input := func(b *rig) jetstream.Stream {
		s, err := b.js.Stream(context.Background(), wire.InputStream("hurt"))
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
	// Without its snapshot a state is rebuilt from the input's first message.
	beheaded := func(b *rig) {
		_, r := b.lastRecord("hurt", 0)
		b.purgeTo("hurt", r.SnapSeq)
	}
	for name, c := range map[string]struct {
		hurt func(b *rig)
		says []string
	}{
		"snapshot deleted": {func(b *rig) {
			s, n := object(b)
			must(b, s.Delete(context.Background(), n))
			beheaded(b)
		}, []string{"is lost", "there is no earlier snapshot", "begins at message", "restore one of the two"}},
		"snapshot deleted, digest edited": {func(b *rig) {
			s, n := object(b)
			must(b, s.Delete(context.Background(), n))
			rewrite(b, func(h nats.Header) { h.Set(wire.HeaderDigest, strings.Repeat("0", 32)) })
		}, []string{"digest", "the snapshot it names is lost, and the state was rebuilt from nothing and the input from message 1 on"}},
		"snapshot deleted, input changed": {func(b *rig) {
			s, n := object(b)
			must(b, s.Delete(context.Background(), n))
			must(b, input(b).DeleteMsg(context.Background(), 2))
		}, []string{"digest", "the snapshot it names is lost"}},
		"snapshot flipped": {func(b *rig) {
			s, n := object(b)
			data, err := s.GetBytes(context.Background(), n)
			must(b, err)
			data[len(data)/2] ^= 4
			_, err = s.PutBytes(context.Background(), n, data)
			must(b, err)
			beheaded(b)
		}, []string{"sha256", "damaged", "restore one of the two"}},
		"a snapshot's pieces gone": {func(b *rig) {
			s, n := object(b)
			info, err := s.GetInfo(context.Background(), n)
			must(b, err)
			bucket, err := b.js.Stream(context.Background(), "OBJ_"+wire.SnapshotBucket("hurt"))
			must(b, err)
			must(b, bucket.Purge(context.Background(), jetstream.WithPurgeSubject("$O."+wire.SnapshotBucket("hurt")+".C."+info.NUID)))
			beheaded(b)
		}, []string{"lost", "0 of 1 are there", "restore one of the two"}},
		"a snapshot's piece flipped": {func(b *rig) {
			s, n := object(b)
			info, err := s.GetInfo(context.Background(), n)
			must(b, err)
			data, err := s.GetBytes(context.Background(), n)
			must(b, err)
			data[len(data)/2] ^= 4
			subject := "$O." + wire.SnapshotBucket("hurt") + ".C." + info.NUID
			bucket, err := b.js.Stream(context.Background(), "OBJ_"+wire.SnapshotBucket("hurt"))
			must(b, err)
			must(b, bucket.Purge(context.Background(), jetstream.WithPurgeSubject(subject)))
			_, err = b.js.Publish(context.Background(), subject, data)
			must(b, err)
			beheaded(b)
		}, []string{"lost", "digest", "restore one of the two"}},
		"digest edited": {func(b *rig) {
			rewrite(b, func(h nats.Header) { h.Set(wire.HeaderDigest, strings.Repeat("0", 32)) })
		}, []string{"digest", "no prediction is made from a wrong state"}},
		"position edited": {func(b *rig) {
			rewrite(b, func(h nats.Header) { h.Set(wire.HeaderInSeq, "999999") })
		}, []string{"lost its last messages"}},
		"header garbled": {func(b *rig) {
			rewrite(b, func(h nats.Header) { h.Set(wire.HeaderEpoch, "three") })
		}, []string{"Eusn-Epoch", "restore the job's NATS streams"}},
		"a digest of another program": {func(b *rig) {
			rewrite(b, func(h nats.Header) { h.Set(wire.HeaderVersion, "5") })
		}, []string{"record on hurt.out.0", "version 5, this program reads version 1: another program wrote it; run that program"}},
		"a digest's version garbled": {func(b *rig) {
			rewrite(b, func(h nats.Header) { h.Set(wire.HeaderVersion, "x") })
		}, []string{"Eusn-Digest-Version is \"x\", want a number"}},
		"snapshot of another program": {func(b *rig) {
			s, n := object(b)
			data, err := s.GetBytes(context.Background(), n)
			must(b, err)
			data[len("EUSNSNAP")] = 4
			_, err = s.PutBytes(context.Background(), n, data)
			must(b, err)
		}, []string{"version 4, this program reads version 1: another program wrote it; run that program, or start a new job"}},
		"snapshot of another place": {func(b *rig) {
			_, r := b.lastRecord("hurt", 0)
			rewrite(b, func(h nats.Header) { h.Set(wire.HeaderSnapSeq, fmt.Sprint(r.SnapSeq-1)) })
		}, []string{"but the record has"}},
		"input recreated": {func(b *rig) {
			cfg := input(b).CachedInfo().Config
			must(b, b.js.DeleteStream(context.Background(), cfg.Name))
			_, err := b.js.CreateStream(context.Background(), cfg)
			must(b, err)
		}, []string{"deleted and created again", "repair its store", "new job"}},
		"input purged": {func(b *rig) { must(b, input(b).Purge(context.Background())) }, []string{"begins at message", "keep more input"}},
		"one input message removed": {func(b *rig) {
			_, r := b.lastRecord("hurt", 0)
			must(b, input(b).DeleteMsg(context.Background(), r.SnapSeq+1))
		}, []string{"digest", "removed or changed"}},
		"last input message removed": {func(b *rig) {
			_, r := b.lastRecord("hurt", 0)
			must(b, input(b).DeleteMsg(context.Background(), r.Mark.Seq))
		}, []string{"was deleted"}},
		"clock moved": {func(b *rig) { // another history with the same numbers
			_, r := b.lastRecord("hurt", 0)
			rewrite(b, func(h nats.Header) { h.Set(wire.HeaderInTime, fmt.Sprint(r.Mark.Time-int64(time.Hour))) })
		}, []string{"was stored", "restored backup"}},
		"input gone": {func(b *rig) { must(b, b.js.DeleteStream(context.Background(), wire.InputStream("hurt"))) }, []string{"deleted and created again"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			conf := quickConfig("hurt", 1)
			r := b.startStage(m, conf)
			var packets []pipelinetest.Packet
			for i := range 12 { // each ends a sequence, so that each is committed
				packets = append(packets, pipelinetest.One("a", uint64(i+1), 2, float32(i)/9, true))
			}
			b.publishPackets(packets[:8])
			r.waitUntil(t, "a snapshot", func(s pipeline.Stats) bool { return s.Snapshots > 0 && s.Predictions == 8 })
			b.publishPackets(packets[8:])
			r.waitUntil(t, "all predictions", func(s pipeline.Stats) bool { return s.Predictions == 12 })
			r.crashStage(t)
			b.expireMembers("hurt")
			if _, rec := b.lastRecord("hurt", 0); rec.Snap == "" || rec.SnapSeq >= rec.InSeq {
				t.Fatalf("no snapshot with messages after it to begin from: %+v", rec)
			}
			c.hurt(b)
			s := pipeline.Worker{Job: pipeline.Job{Config: conf, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			mentions(t, s.Run(ctx), c.says...)
			if ctx.Err() != nil {
				t.Fatal("it went on")
			}
			raw, _ := b.js.Stream(t.Context(), wire.OutputStream("hurt"))
			msg, err := raw.GetLastMsgForSubject(t.Context(), wire.OutputSubject("hurt", 0))
			if err != nil {
				t.Fatal(err)
			}
			if _, ps, err := codec.DecodePredictions(msg.Data); err == nil && len(ps) > 0 && msg.Header.Get(wire.HeaderKind) != wire.KindCommit {
				t.Errorf("something was predicted: %v", ps)
			}
		})
	}
}
