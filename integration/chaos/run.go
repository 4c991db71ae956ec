//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

const (
	noProgress      = 45 * time.Second // without a new prediction the run is stuck
	controlPatience = 8 * time.Second  // the same for a negative control, which may lose predictions
	askAgainAfter   = 8 * time.Second  // without a new prediction, producers check for lost messages
	silenceWithin   = 90 * time.Second // after the end of the load: limit for silence to end a sequence
	settleTime      = time.Second      // wait for superfluous predictions
)

// run is a scenario with a seed.
type run struct {
	scenario *scenario
	seed     uint64
	dir      string
	worker   string // the worker's binary
	log      *os.File

	procs      *children
	cluster    *cluster
	fleet      *fleet
	producers  *producers
	truth      *truth
	next       *truth   // of the network that replaces the first network; nil without replacement
	successor  *proc    // worker of the second job
	counts     []int    // numbers of partitions to which the job was resized
	cuts       []uint64 // last input messages before
	counted    int      // number of these resizes that the input has reached
	changes    int      // commands that changed the job
	companions companions
	audit      *audit
	stored     map[string]map[uint64]bool // messages in the input
	inputRead  uint64                     // last message of the input that the truth has read
	result     *result
}

// runScenario performs a run, and always cleans up after it.
func runScenario(ctx context.Context, s *scenario, seed uint64, worker, dir string) *result {
	begin := time.Now()
	if s.Disks && mounts() != "" {
		return skippedResult(s, seed, mounts())
	}
	r := &run{scenario: s, seed: seed, dir: dir, worker: worker, procs: &children{dir: dir}, stored: map[string]map[uint64]bool{}}
	r.result = newResult(s, seed)
	ctx, cancel := context.WithTimeoutCause(ctx, 4*s.Load+4*time.Minute, fmt.Errorf("chaos: the run did not end within %v", 4*s.Load+4*time.Minute))
	defer cancel()
	err := r.prepare()
	if err == nil {
		err = r.perform(ctx)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("chaos: the run did not reach its end: %w", cause)
	}
	r.cleanUp()
	r.result.conclude(r, err)
	r.result.Seconds = time.Since(begin).Seconds()
	return r.result
}

func (r *run) prepare() error {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	var err error
	if r.log, err = os.Create(filepath.Join(r.dir, "events.log")); err != nil {
		return err
	}
	m, err := drawModel(r.scenario.Policy, 3, 5, cmp.Or(r.scenario.Classes, 3))
	if err != nil {
		return err
	}
	model := filepath.Join(r.dir, "model.safetensors")
	if err := m.Save(model); err != nil {
		return err
	}
	conf := filepath.Join(r.dir, "worker.yaml")
	if err := os.WriteFile(conf, []byte(r.scenario.config()), 0o644); err != nil {
		return err
	}
	if r.cluster, err = newCluster(r.procs, r.dir, r.scenario.Nodes); err != nil {
		return err
	}
	r.fleet = &fleet{lag: r.scenario.Lag, procs: r.procs, cluster: r.cluster, exits: map[string]int{}, args: []string{
		r.worker, "run", "-c", conf, "--model", model, "--job", job, "--partitions", strconv.Itoa(r.scenario.Partitions),
	}}
	r.cluster.extra, r.cluster.disks = r.scenario.serverArgs(), r.scenario.Disks
	for _, n := range r.cluster.nodes {
		if r.scenario.Disks {
			if err := makeImage(r.cluster.createImage(n)); err != nil {
				return err
			}
		}
	}
	if r.scenario.Unsafe != "" {
		r.fleet.env = []string{"EUSN_UNSAFE=" + r.scenario.Unsafe}
	}
	if r.scenario.Embedded {
		r.cluster.owner, r.cluster.env = r.fleet.args, r.fleet.env
	}
	return r.planInput(m)
}

// planInput plans the input, and computes the expected predictions with the model.
func (r *run) planInput(m *reservoir.Model) (err error) {
	p := newPlan(r.seed, r.scenario.Traffic, m.Policy.Kind == "marked")
	r.producers = &producers{plan: p, acknowledged: map[string]map[uint64]bool{}}
	if r.scenario.countHarms(promotion) > 0 {
		if m, err = withReadouts(m, r.scenario.Policy); err != nil {
			return err
		}
	}
	if r.scenario.countHarms(replacement) > 0 {
		other, err := drawModel(r.scenario.Policy, 4, 5, 3) // the model of the second job
		if err == nil {
			r.next, err = newTruth(p, other, r.scenario.Reorder)
		}
		if err != nil {
			return err
		}
	}
	if r.truth, err = newTruth(p, m, r.scenario.Reorder); err == nil {
		r.truth.readouts.partition = func(key string) int { return partitionOf(key, r.scenario.Partitions) }
	}
	return err
}

// perform is the course of a run: servers and workers, then load and faults at the same
// time, then no more faults, the closing samples, and the comparison of predictions and
// states.
func (r *run) perform(ctx context.Context) error {
	nc, err := r.cluster.startAll(ctx)
	if nc != nil {
		defer nc.Close()
	}
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if err := r.startWorkers(ctx, js); err != nil {
		return err
	}
	if err := r.runLoad(ctx, js); err != nil {
		return err
	}
	if err := r.endLoad(ctx, js); err != nil {
		return err
	}
	if err := r.compareAll(ctx, js); err != nil {
		return err
	}
	if r.scenario.control() != "" || r.scenario.May.isLenient() || r.scenario.Embedded || len(r.counts) > 0 || r.next != nil {
		return nil // lost input may be in the states; an embedded server ends with its worker; and a changed job has other states than a job that starts with the input
	}
	return r.checkStates(ctx, js)
}

// startWorkers starts the workers and their companions.
func (r *run) startWorkers(ctx context.Context, js jetstream.JetStream) error {
	r.fleet.setScale(r.scenario.Workers[0])
	if r.fleet.err != nil {
		return r.fleet.err
	}
	if err := awaitStreams(ctx, js); err != nil {
		return err
	}
	if err := r.publishReadouts(ctx); err != nil {
		return err
	}
	return r.startCompanions(ctx, js)
}

// endLoad ends the load without faults: all sequences are closed.
func (r *run) endLoad(ctx context.Context, js jetstream.JetStream) error {
	r.fleet.pending.Wait() // the last zombie has woken up and ended
	if err := r.awaitSilence(ctx, js); err != nil {
		return err
	}
	if err := r.promotionsTaken(ctx, js); err != nil {
		return err
	}
	err := r.closeSequences(ctx, js)
	if r.companions.gateway != nil {
		if how := r.companions.gateway.stop(workerStop); how != endedWell {
			r.result.addFailure("gateway ended with %s", how)
		}
	}
	return err
}

// compareAll compares the predictions, and the results of the companions.
func (r *run) compareAll(ctx context.Context, js jetstream.JetStream) error {
	err := r.compareOutput(ctx, js)
	if err == nil && r.scenario.Backfill {
		err = r.runBackfill(ctx)
	}
	if err == nil && r.companions.alarms != nil {
		err = r.compareAlarms(ctx, js)
	}
	if err == nil && r.companions.recorder != nil {
		err = r.compareRecording(ctx)
	}
	if err == nil && r.companions.labels != nil {
		err = r.compareLearned(ctx, js)
	}
	return err
}

// runLoad publishes the plan while faults happen.
func (r *run) runLoad(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.producers.js = js
	messages := 0
	for _, s := range r.producers.plan.sends {
		messages += len(s)
	}
	r.producers.rate = float64(messages) / r.scenario.Load.Seconds()
	broke := make(chan error, 1)
	go func() {
		err := r.breakThings(ctx, js, r.scenario.schedule(r.seed))
		if err != nil {
			cancel(err)
		}
		broke <- err
	}()
	err := r.producers.produceUntil(ctx)
	if failed := <-broke; failed != nil {
		return failed
	}
	return err
}

// partitionOfStream returns the partition of a stream's key.
func (r *run) partitionOfStream(id string) int {
	return partitionOf(r.truth.owner[id], r.partitions())
}

// awaitSilence waits until the workers have ended a sequence because of silence, in runs
// with an idle time. On a busy machine no stream may be silent for long enough during the
// load; after the load all streams are.
func (r *run) awaitSilence(ctx context.Context, js jetstream.JetStream) error {
	for begin := time.Now(); r.scenario.Idle > 0 && r.truth.idle == 0 && time.Since(begin) < silenceWithin; time.Sleep(200 * time.Millisecond) {
		var err error
		if r.inputRead, err = readOn(ctx, js, inputStream, r.inputRead, false, r.readInput); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) holdsMessage(key string, seq uint64) bool { return r.stored[key][seq] }

// readInput passes a stored message, as the producer meant it, to the truth of its
// partition.
func (r *run) readInput(s stored) error {
	if len(s.tokens) != 4 {
		return fmt.Errorf("chaos: subject %s in the input", s.subject)
	}
	key := s.tokens[3]
	switch s.header.Get(headerKind) {
	case "idle":
		return r.truth.applySilence(s, r.layout(s.seq))
	case promoteKind:
		return r.truth.promote(s)
	}
	if r.producers.door.serves(key) {
		return r.checkPosted(s, key)
	}
	seq, err := r.inputNumber(s)
	if err != nil {
		if r.scenario.Loses && len(s.header) == 0 {
			return nil // a flipped bit that the server's checksum does not cover: headers are payload then
		}
		return err
	}
	if err := r.checkPlacement(key, s.partition); err != nil {
		return err
	}
	m := r.producers.plan.findMessage(key, seq)
	if m == nil {
		return fmt.Errorf("chaos: the input holds %s %d, which no producer sent", key, seq)
	}
	if m, err = r.contentOf(m, s.data); m == nil {
		return err
	}
	if r.stored[key] == nil {
		r.stored[key] = map[uint64]bool{}
	}
	r.stored[key][seq] = true
	if r.scenario.May.isLenient() {
		return nil
	}
	if r.next != nil {
		if err := r.next.readInput(m, s.seq); err != nil {
			return err
		}
	}
	return r.truth.readInput(m, s.seq)
}

// inputNumber returns the number that the producer gave a message.
func (r *run) inputNumber(s stored) (uint64, error) {
	if r.scenario.Traffic.Unnumbered {
		return s.parseNumber(headerPlan)
	}
	return s.parseNumber(headerSeq)
}

// contentOf returns the content of a number that equals the bytes. No content and no error: a
// flipped bit has moved the end of the headers, which the server's checksum does not cover.
func (r *run) contentOf(m *input, got []byte) (*input, error) {
	for _, of := range []*input{m, m.reused} {
		if of == nil {
			continue
		}
		data, err := r.producers.plan.payload(of)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(data, got) {
			return of, nil
		}
		if r.scenario.Loses && (bytes.HasSuffix(data, got) || bytes.HasSuffix(got, data)) {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("chaos: the input holds other bytes for %s %d than were sent", m.key, m.seq)
}

// allStored checks that the server kept all acknowledged messages.
func (r *run) allStored() error {
	for key, sent := range r.producers.acknowledged {
		for seq := range sent {
			if !r.holdsMessage(key, seq) {
				return fmt.Errorf("chaos: the server acknowledged %s %d and has lost it", key, seq)
			}
		}
	}
	return nil
}

// cleanUp ends all running processes.
func (r *run) cleanUp() {
	if r.fleet != nil {
		r.fleet.stopAll()
	}
	if r.cluster != nil {
		r.cluster.stopAll()
	}
	for _, cry := range r.procs.findAlarms() {
		if r.scenario.control() == "" && !(r.scenario.May.Stop && strings.Contains(cry, "partition stopped")) {
			r.result.addFailure("a worker's log: %s", cry)
		}
	}
	if left := r.procs.reap(); len(left) > 0 {
		r.result.addFailure("still running: %v", left)
	}
	if r.log != nil {
		r.log.Close()
	}
}

// logEvent logs a fault with its time.
func (r *run) logEvent(begin time.Time, e event) {
	fmt.Fprintf(r.log, "%s %7.3fs  %s pick=%d for=%v\n", time.Now().UTC().Format(time.RFC3339Nano), time.Since(begin).Seconds(), e.kind, e.pick, e.d)
}
