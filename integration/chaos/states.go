//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
)

// record is the state in the last message of a partition's output.
type record struct {
	kind, digest string
	after        string // the input message of the digest
	outs         string
}

// lastRecord returns the last message of a partition's output.
func lastRecord(ctx context.Context, js jetstream.JetStream, partition int) (msg *jetstream.RawStreamMsg, err error) {
	err = retryRequest(ctx, func(ctx context.Context) error {
		s, err := js.Stream(ctx, outputStream)
		if err == nil {
			msg, err = s.GetLastMsgForSubject(ctx, fmt.Sprintf("%s.out.%d", job, partition))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("chaos: last record of partition %d: %w", partition, err)
	}
	return msg, nil
}

func (r *run) readRecords(ctx context.Context, js jetstream.JetStream) ([]record, error) {
	all := make([]record, r.scenario.Partitions)
	for p := range all {
		msg, err := lastRecord(ctx, js, p)
		if err != nil {
			return nil, err
		}
		h := msg.Header
		all[p] = record{h.Get("Eusn-Kind"), h.Get("Eusn-Digest"), h.Get("Eusn-Digest-In-Seq"), h.Get("Eusn-Outs")}
	}
	return all, nil
}

// checkStates compares the final states with those of an undisturbed worker: all NATS
// streams except the input are deleted, one worker with the generic engine processes the
// whole input, and the digest of each partition (128 bits over every state and all
// bookkeeping) must be equal.
func (r *run) checkStates(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	broken, err := r.readRecords(ctx, js)
	if err != nil {
		return err
	}
	if stored, err := lastSeq(ctx, js, rowStream); err != nil {
		return err
	} else if stored == 0 && r.scenario.Slots > 0 {
		r.result.addFailure("no state row was ever stored apart, with %d slots a shard", r.scenario.Slots)
	}
	if r.result.Silenced = r.truth.idle; r.truth.idle == 0 && r.scenario.Idle > 0 {
		r.result.addFailure("no sequence was ended by silence, which %v after the load should have done", silenceWithin)
	}
	if err := forgetBegun(ctx, js); err != nil {
		return err
	}
	for _, name := range []string{outputStream, deadStream, rowStream, snapStream, memberStream} {
		if err := retryRequest(ctx, func(ctx context.Context) error { return js.DeleteStream(ctx, name) }); err != nil {
			return fmt.Errorf("chaos: deleting %s: %w", name, err)
		}
	}
	if err := r.runUndisturbed(ctx, js); err != nil {
		return err
	}
	whole, err := r.readRecords(ctx, js)
	if err != nil {
		return err
	}
	r.compareStates(broken, whole)
	return nil
}

// compareStates compares the records of all partitions with those of an undisturbed worker.
func (r *run) compareStates(broken, whole []record) {
	for p := range whole {
		r.result.States++
		if broken[p].kind == "claim" { // a worker was stopped during a takeover; digest, position and outputs are those of the record before
			broken[p].kind = whole[p].kind
		}
		without := record{kind: broken[p].kind, outs: "0"} // a partition without keys: it has no state, and need not be released
		if broken[p] == without && (whole[p] == record{kind: whole[p].kind, outs: "0"}) {
			continue
		}
		if broken[p] != whole[p] || whole[p].digest == "" {
			if r.result.Differing++; r.result.Differing > maxCries {
				continue
			}
			r.result.addFailure("partition %d ended as %+v, undisturbed as %+v", p, broken[p], whole[p])
		}
	}
}

// forgetBegun removes the mark of the job's start from its input: a worker does not start
// a job a second time.
func forgetBegun(ctx context.Context, js jetstream.JetStream) error {
	return retryRequest(ctx, func(ctx context.Context) error {
		s, err := js.Stream(ctx, inputStream)
		if err != nil {
			return err
		}
		c := s.CachedInfo().Config
		delete(c.Metadata, "eusn-begun")
		_, err = js.UpdateStream(ctx, c)
		return err
	})
}

// runUndisturbed lets one worker process the whole input. Its predictions are compared
// with the truth as well.
func (r *run) runUndisturbed(ctx context.Context, js jetstream.JetStream) error {
	// With slots for every state and without a clock: neither may change anything.
	env := []string{"EUSN_STAGE_IDLE=0s", "EUSN_STAGE_MAX_SLOTS=65536"}
	w, err := r.procs.start("undisturbed", env, append(slices.Clone(r.fleet.args), "--engine", "generic", "--nats-url", r.cluster.url())...)
	if err != nil {
		return err
	}
	if err := awaitStreams(ctx, js); err != nil {
		return err
	}
	// The job starts from scratch: the promotions in the log belong to another job.
	a := newAudit(r.truth.readouts.first)
	var read uint64
	for last := time.Now(); a.total < r.truth.total && time.Since(last) < noProgress; time.Sleep(50 * time.Millisecond) {
		before := a.total
		if read, err = readOn(ctx, js, outputStream, read, false, a.checkMessage); err != nil {
			return err
		}
		if a.total > before {
			last = time.Now()
		}
	}
	if how := w.stop(workerStop); how != endedWell {
		return fmt.Errorf("chaos: the undisturbed worker ended with %s", how)
	}
	a.countMissing(r.partitionOfStream, nil)
	if a.lost+a.duplicated+a.wrong > 0 {
		return fmt.Errorf("chaos: even undisturbed, %d lost, %d duplicated, %d wrong: %v", a.lost, a.duplicated, a.wrong, a.notes)
	}
	return nil
}

// runBackfill predicts the whole log into a file, with a command that is killed several
// times, and compares its lines with the truth.
func (r *run) runBackfill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	out, rng := filepath.Join(r.dir, "backfill.jsonl"), r.newRand("backfill")
	args := []string{r.worker, "job", "backfill", "-c", filepath.Join(r.dir, "worker.yaml"), "--model", filepath.Join(r.dir, "model.safetensors"),
		"--job", job, "--nats-url", r.cluster.url(), "--since", "start", "--limit", "15000", "--output", out}
	for kills := 0; ; kills++ {
		p, err := r.procs.start(fmt.Sprint("backfill-", kills), nil, args...)
		if err != nil {
			return err
		}
		var dies <-chan time.Time
		if kills < changeKills {
			dies = time.After(time.Duration(300+rng.IntN(1200)) * time.Millisecond)
		}
		select {
		case <-p.done:
			if p.exitStatus() != endedWell {
				return fmt.Errorf("chaos: backfill ended with %s: see %s.log", p.exitStatus(), p.name)
			}
			if kills == 0 {
				return fmt.Errorf("chaos: backfill ended before it was killed: %s", shownNothing)
			}
			return r.compareLines(out, r.truth.predictions)
		case <-dies:
			p.kill()
		case <-ctx.Done():
			p.kill()
			return ctx.Err()
		}
	}
}

// compareLines expects one line for each wanted prediction, each stream in order.
func (r *run) compareLines(path string, want map[string][]codec.Prediction) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	next, wrong := map[string]int{}, 0
	for line := range bytes.Lines(text) {
		var got struct {
			Stream, Class, Flags string
			Seq                  uint64
			Row                  uint32
			Score, Probability   float32
			Scores               []float32
		}
		if err := json.Unmarshal(line, &got); err != nil {
			return fmt.Errorf("chaos: backfill: %w in line %q", err, line)
		}
		i := next[got.Stream]
		next[got.Stream]++
		if all := want[got.Stream]; i >= len(all) {
			wrong++
		} else if w := all[i]; got.Seq != w.Seq || got.Row != w.Row || got.Flags != w.Flags.String() || got.Class != fmt.Sprint("class ", w.Class) ||
			got.Score != w.Score || got.Probability != w.Probability || !slices.Equal(got.Scores, w.Scores) {
			wrong++
		}
	}
	missing := 0
	for id, all := range want {
		missing += max(0, len(all)-next[id])
	}
	if wrong+missing > 0 {
		r.result.addFailure("backfill: %d lines are wrong or too many, %d predictions are missing", wrong, missing)
	}
	return nil
}
