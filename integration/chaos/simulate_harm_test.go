//go:build simulation && chaos && linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Kinds of damage to the stored data of a job.
const (
	rewinds  = "rewind"          // the store of the server returns to an earlier moment
	purges   = "purge"           // of a NATS stream, by an operator
	deletes  = "delete messages" // of the input, by an operator
	flips    = "bit flip"        // in a file of the server
	empties  = "empty streams"
	unsynced = "power loss without syncs"
	recreate = "recreate the input" // by an operator, under its readers
)

// drawDamage draws damage to the job's stored data. Afterwards a partition may stop, or
// flag predictions; it may not answer wrongly without a flag.
func (s *scenario) drawDamage(rng *rand.Rand) {
	kind := []string{rewinds, purges, deletes, flips, empties, unsynced, recreate}[rng.IntN(7)]
	s.allowDamage(flaggedOrStopped)
	s.May.Shown = kind == purges || kind == flips // of the output
	if kind == rewinds {
		s.Harms = append(s.Harms, harm{Kind: "backup", Share: .1 + .3*rng.Float64()})
	}
	s.Harms = append(s.Harms, harm{Kind: kind, Share: .4 + .4*rng.Float64()})
}

// damage lets a damage happen.
func (h *history) damage(kind string, pick uint32, js jetstream.JetStream) {
	w, rng := h.world, rand.New(rand.NewPCG(h.seed, uint64(pick)^1<<40))
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	some := func(streams ...string) []string {
		n := 1 + rng.IntN(len(streams))
		rng.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
		return streams[:n]
	}
	var err error
	switch kind {
	case "backup":
		err = copyStore(w.store(w.stores), filepath.Join(w.dir, "backup"))
		if all := h.scenario.Harms; err == nil && all[len(all)-1].Kind == goesBack {
			h.kept, err = lastSeq(ctx, js, inputStream)
		}
	case rewinds, flips, empties:
		streams := some(inputStream, outputStream, snapStream, rowStream, memberStream)
		err = h.changeStreams(kind, time.Duration(rng.IntN(1500))*time.Millisecond, streams, rng)
		kind += " of " + strings.Join(streams, " and ")
	case unsynced:
		err = w.killServer(time.Duration(rng.IntN(1500))*time.Millisecond, true)
	case purges, deletes:
		err = h.removeMessages(ctx, js, kind, rng)
	case recreate:
		err = recreateInput(ctx, js, time.Duration(rng.IntN(1000))*time.Millisecond)
	default:
		err = h.damageOne(ctx, kind, js, rng)
	}
	w.log.Info("FAULT: "+kind, "err", err)
	if err == nil {
		w.count(h.scenario.Harms[pick].Kind)
	}
}

// harmStore changes the folders of NATS streams while no server runs on them.
func harmStore(kind, dir, backup string, streams []string, rng *rand.Rand) error {
	for _, name := range streams {
		folder := filepath.Join(dir, name)
		var err error
		switch kind {
		case rewinds:
			if err = os.RemoveAll(folder); err == nil {
				err = copyStore(filepath.Join(backup, name), folder)
			}
		case flips:
			err = flipBit(folder, rng)
		case empties:
			msgs := filepath.Join(folder, "msgs")
			if err = os.RemoveAll(msgs); err == nil {
				os.RemoveAll(filepath.Join(folder, "obs"))
				err = os.Mkdir(msgs, 0o700)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeMessages removes messages as an operator does.
func (h *history) removeMessages(ctx context.Context, js jetstream.JetStream, kind string, rng *rand.Rand) error {
	name := inputStream
	if kind == purges {
		name = []string{inputStream, outputStream, snapStream, memberStream}[rng.IntN(4)]
	}
	s, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return fmt.Errorf("%s is empty", name)
	}
	span := state.LastSeq - state.FirstSeq + 1
	if name == outputStream && rng.IntN(2) == 0 { // a partition without its record
		return s.Purge(ctx, jetstream.WithPurgeSubject(fmt.Sprintf("%s.out.%d", job, rng.IntN(h.partitions()))))
	}
	if kind == purges {
		return s.Purge(ctx, jetstream.WithPurgeSequence(state.FirstSeq+1+rng.Uint64N(span)))
	}
	for range 1 + rng.IntN(10) {
		if err := s.DeleteMsg(ctx, state.FirstSeq+rng.Uint64N(span)); err != nil && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return err
		}
	}
	return nil
}

// recreateInput deletes the input, and creates a NATS stream with the same configuration.
func recreateInput(ctx context.Context, js jetstream.JetStream, wait time.Duration) error {
	s, err := js.Stream(ctx, inputStream)
	if err != nil {
		return err
	}
	if err := js.DeleteStream(ctx, inputStream); err != nil {
		return err
	}
	time.Sleep(wait)
	return retryRequest(ctx, func(ctx context.Context) error {
		_, err := js.CreateOrUpdateStream(ctx, s.CachedInfo().Config)
		return err
	})
}

// findStopped is fleet.findStopped for the workers of a history.
func (h *history) findStopped() (stops, error) {
	all, heard, w := stops{}, map[*seat]bool{}, h.world
	w.mu.Lock()
	workers := slices.Clone(w.all)
	w.mu.Unlock()
	for _, v := range slices.Backward(workers) {
		if heard[v.seat] {
			continue
		}
		text := v.log.Bytes()
		logged, err := all.addLogged(text)
		if err != nil {
			return nil, err
		}
		heard[v.seat] = logged || bytes.Contains(text, []byte("stage is reading"))
		if heard[v.seat] || v.err == nil || v.away {
			continue
		}
		heard[v.seat] = true
		for p := range h.partitions() {
			if all[p] == "" {
				all[p] = v.err.Error()
			}
		}
	}
	return all, nil
}

// isOver reports whether the producers may give up: the NATS stream of the input is gone,
// every partition is stopped with a reason, and the damage allows stopped partitions.
// Producers would retry until an operator restores the streams.
func (h *history) isOver(ctx context.Context, js jetstream.JetStream) bool {
	if _, err := js.Stream(ctx, inputStream); !h.scenario.May.Stop || !errors.Is(err, jetstream.ErrStreamNotFound) {
		return false
	}
	stopped, err := h.findStopped()
	for p := range h.partitions() {
		if err != nil || stopped[p] == "" {
			return false
		}
	}
	return true
}

// compareStopped compares what a stopped job has predicted, after the producers have
// given up.
func (h *history) compareStopped(ctx context.Context, js jetstream.JetStream, why error) error {
	if !errors.Is(why, errOver) {
		return why
	}
	h.world.log.Info(why.Error())
	h.faults.Wait()
	if err := h.truth.readMeant(map[string]int{}); err != nil {
		return err
	}
	return h.compare(ctx, js)
}
