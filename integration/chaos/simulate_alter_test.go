//go:build simulation && chaos && linux

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	formats "github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Kinds of damage to what the next owner reads. The snapshots are valid, and only their
// digests are not those of the records.
const (
	alters   = "altered snapshot"             // while no worker runs
	realters = "altered snapshot in a resize" // before it reads the snapshot, or after it has stored the snapshot
	removes  = "removed input of the next owner"
)

// drawAlterations draws altered snapshots, after the other damage.
func (s *scenario) drawAlterations(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1<<45))
	if s.May.isLenient() || s.Classes > 0 || rng.Float64() > .2 {
		return
	}
	kind, at := []string{alters, realters, realters, removes}[rng.IntN(4)], .3+.3*rng.Float64()
	s.allowDamage(orStopped)
	s.Harms = []harm{{Kind: kind, Share: at}}
	switch kind {
	case realters:
		s.Harms = append(s.Harms, harm{Kind: resizing, Share: at + .05})
	case removes:
		s.allowDamage(flaggedOrStopped)
		s.calm()
		s.Traffic.Unnumbered, s.Traffic.Repeat = true, 0 // numbers would show the loss
		s.Harms = []harm{{Kind: kind, Share: at}}
	}
}

// alteration is damage that waits for a moment of a resize.
type alteration struct {
	pick     uint32
	name     string // of the altered snapshot
	original []byte
	refused  bool
}

// alterStopped kills all workers, damages what the next workers read, and starts them.
func (h *history) alterStopped(ctx context.Context, kind string, js jetstream.JetStream, rng *rand.Rand) error {
	w, left := h.world, map[*seat]*simulated{}
	w.mu.Lock()
	seats := w.workers
	for _, s := range seats {
		s.worker.away = true
		left[s] = s.worker
	}
	w.mu.Unlock()
	for _, s := range seats {
		left[s].cable.end()
	}
	defer func() {
		for _, s := range seats {
			w.fillSeat(s, left[s], h.job)
		}
	}()
	time.Sleep(100 * time.Millisecond) // the server has stored what it has received
	p := rng.IntN(h.partitions())
	r, err := readRecord(ctx, js, p)
	if err != nil {
		return err
	}
	if kind == removes {
		return removeReplayed(ctx, js, p, r, rng)
	}
	_, err = alterSnapshot(ctx, js, r.Snap)
	return err
}

// readRecord returns the last record of a partition.
func readRecord(ctx context.Context, js jetstream.JetStream, p int) (formats.Record, error) {
	out, err := js.Stream(ctx, outputStream)
	if err != nil {
		return formats.Record{}, err
	}
	r, _, err := store.ReadRecord(ctx, out, job, p)
	if err == nil && r.Snap == "" {
		err = fmt.Errorf("partition %d has no snapshot", p)
	}
	return r, err
}

// removeReplayed deletes a message between the snapshot and the record of a partition: the
// next owner replays it.
func removeReplayed(ctx context.Context, js jetstream.JetStream, p int, r formats.Record, rng *rand.Rand) error {
	in, err := js.Stream(ctx, inputStream)
	if err != nil {
		return err
	}
	var all []uint64
	for seq := r.SnapSeq + 1; seq < r.InSeq; {
		m, err := in.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(fmt.Sprintf("%s.in.%d.>", job, p)))
		if err != nil {
			return err
		}
		if m.Sequence < r.InSeq {
			all = append(all, m.Sequence)
		}
		seq = m.Sequence + 1
	}
	if len(all) == 0 {
		return fmt.Errorf("partition %d replays no message", p)
	}
	return in.DeleteMsg(ctx, all[rng.IntN(len(all))])
}

// alterSnapshot changes the state in a snapshot, and returns the previous bytes.
func alterSnapshot(ctx context.Context, js jetstream.JetStream, name string) (before []byte, err error) {
	all, err := store.FindSnapshots(ctx, js, job)
	if err != nil {
		return nil, err
	}
	if before, err = all.Get(ctx, name); err != nil {
		return nil, err
	}
	part, _, _, ok := formats.ParseSnapshotName(name)
	shape, _, err := state.ShapeIn(before)
	if err != nil || !ok {
		return nil, errors.Join(err, fmt.Errorf("snapshot %q", name))
	}
	p, err := state.Decode(before, shape, part)
	if err != nil {
		return nil, err
	}
	if len(p.Sources) == 0 {
		return nil, errors.New("the snapshot has no key")
	}
	for _, key := range p.Sources {
		key.Last++ // the next message looks like a repeat
	}
	altered, err := p.Encode(shape, state.DecodedRows{})
	if err != nil {
		return nil, err
	}
	return before, all.Put(ctx, name, altered)
}

var putSnapshot = regexp.MustCompile(`PUB \$O\.CHAOS-SNAP\.M\.(\S+) `)

// armAlteration lets the alteration happen during a resize: before the resize notes a step,
// or when the server has a snapshot of the new partitions.
func (h *history) armAlteration(c *cable, js jetstream.JetStream) {
	a := h.altered
	if a == nil || a.name != "" || a.refused {
		return
	}
	rng := rand.New(rand.NewPCG(h.seed, uint64(a.pick)))
	m := &moment{spares: true, skip: rng.IntN(3), text: "PUB $O.CHAOS-SNAP.M."}
	if rng.IntN(2) == 0 {
		m.text, m.before = "PUB "+formats.EntrySubject(job), true
		m.skip = 2 + rng.IntN(2) // before the input is drained, or after that
	}
	m.cut = func(piece []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
		defer cancel()
		name, err := "", error(nil)
		if m.before {
			var r formats.Record
			r, err = readRecord(ctx, js, rng.IntN(h.partitions()))
			name = r.Snap
		} else if found := putSnapshot.FindSubmatch(piece); found != nil {
			var text []byte
			text, err = base64.URLEncoding.DecodeString(string(found[1]))
			name = string(text)
			time.Sleep(10 * time.Millisecond) // until it is stored
		}
		var before []byte
		if err == nil {
			before, err = alterSnapshot(ctx, js, name)
		}
		h.world.log.Info("FAULT: "+realters, "snapshot", name, "err", err)
		if err == nil {
			a.name, a.original = name, before
			h.world.count(realters)
		}
	}
	c.arm(m)
}

// undoAlteration restores a snapshot after a resize has refused it, as an operator does.
func (h *history) undoAlteration(js jetstream.JetStream, why error) error {
	a := h.altered
	if a == nil || a.name == "" || a.refused || !strings.Contains(why.Error(), "digest") {
		return nil
	}
	a.refused = true
	h.world.count("resize refuses a snapshot")
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	return retryRequest(ctx, func(ctx context.Context) error {
		all, err := store.FindSnapshots(ctx, js, job)
		if err == nil {
			err = all.Put(ctx, a.name, a.original)
		}
		return err
	})
}
