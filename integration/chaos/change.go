//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
)

// jobFaults are runs with faults of the whole job.
func jobFaults() []*scenario {
	nameless := func(s *scenario) { s.Traffic.Unnumbered, s.Traffic.Repeat = true, 0 }
	statesAndOutput := []string{outputStream, snapStream, rowStream}
	resizes := []harm{resized(0.2, 12), resized(0.5, 3), resized(0.8, 8)}
	posted := func(s *scenario) {
		s.Policy, s.Traffic, s.Load = "count", traffic{Keys: 16, Messages: 150, Repeat: 0.02}, 15*time.Second
		s.Harms, s.Kills, s.ServerKills = gatewayKills(0.15, 0.3, 0.5, 0.7, 0.9), 1, 1
	}
	recording := func(s *scenario) {
		s.Harms, s.Kills, s.ServerKills = recorderKills(0.25, 0.5, 0.7, 0.9), 1, 1
	}
	learning := func(s *scenario) {
		s.Traffic, s.Harms, s.Kills = steady, learnKills(0.3, 0.6, 0.9), 1
	}
	return []*scenario{
		harmed("empty", flaggedOrStopped, emptyStreams(false, allStreams...)),
		harmed("empty-unnumbered", flaggedOrStopped, emptyStreams(false, allStreams...)).with(nameless),
		harmed("empty-restart", flaggedOrStopped, emptyStreams(true, allStreams...)),
		harmed("empty-output", orStopped, emptyStreams(false, statesAndOutput...)),
		harmed("empty-output-restart", orStopped, emptyStreams(true, statesAndOutput...)),

		// A killed worker's consumers remain for half a minute: a server's default limit
		// is 1,000 consumers per NATS stream.
		base("consumer-limit").with(func(s *scenario) { s.Partitions, s.Workers, s.Kills, s.Load = 300, []int{2}, 12, 20*time.Second }),

		base("resize").with(func(s *scenario) { s.Workers, s.Harms = []int{2}, resizes }),
		base("resize-window").with(func(s *scenario) { s.Policy, s.Slots, s.Harms, s.ServerKills = "window", 30, resizes, 1 }),
		base("backfill").with(func(s *scenario) { s.Backfill, s.Kills = true, 2 }),
		base("backfill-window").with(func(s *scenario) { s.Policy, s.Backfill = "window", true }),
		base("alarms").with(func(s *scenario) { s.Harms, s.Kills, s.ServerKills = alarmKills(0.2, 0.4, 0.6, 0.8, 0.95), 3, 1 }),
		base("alarms-early").with(func(s *scenario) { s.Policy, s.Workers, s.Harms = "early", []int{2}, alarmKills(0.3, 0.5, 0.7) }),
		base("gateway").with(posted),
		base("gateway-no-id").with(posted).with(func(s *scenario) { s.Control = noRequestIDs }),
		base("recorder").with(recording),
		base("recorder-lost-file").with(recording).with(func(s *scenario) { s.Control = noSecondFile }),
		base("learn").with(learning),
		base("learn-left-out").with(learning).with(func(s *scenario) { s.Control = noFirstKey }),
		base("replace").with(func(s *scenario) { s.Workers, s.Harms = []int{2}, replaced(0.1, 0.6) }),
		base("replace-window").with(func(s *scenario) { s.Policy, s.Harms, s.Kills = "window", replaced(0.1, 0.5), 2 }),
	}
}

// emptyStreams kills the server after half of the load and empties the job's NATS
// streams. The streams keep their configuration and creation time, as in a cluster whose
// server has lost its disk. With restart the workers are killed as well.
func emptyStreams(restart bool, streams ...string) harm {
	return harm{"emptied " + strings.Join(streams, " and "), 0.5, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		r.fleet.cutAll()
		defer r.fleet.mendAll()
		return r.cluster.whileDown(func(n *node) error {
			for _, name := range streams {
				dir := r.cluster.storeDir(n, name)
				msgs := filepath.Join(dir, "msgs")
				if _, err := os.Stat(msgs); err != nil {
					return err
				}
				if err := errors.Join(os.RemoveAll(msgs), os.RemoveAll(filepath.Join(dir, "obs")), os.Mkdir(msgs, 0o755)); err != nil {
					return err
				}
			}
			if restart {
				r.fleet.killAll()
			}
			return nil
		})
	}}
}

// allStreams are the NATS streams of a job.
var allStreams = []string{inputStream, outputStream, snapStream, rowStream, memberStream}

const (
	changeKills  = 3               // kills of a command that changes the job
	changeWithin = 2 * time.Minute // for a command and its kills
	replacement  = "replacement"
	second       = "second" // the job whose network and states replace those of the first job
)

// partitions returns the current number of the job's partitions.
func (r *run) partitions() int {
	if n := len(r.counts); n > 0 {
		return r.counts[n-1]
	}
	return r.scenario.Partitions
}

// checkPlacement checks the partition of a stored message, under the number of partitions
// at that time.
func (r *run) checkPlacement(key string, partition int) error {
	for ; r.counted <= len(r.counts); r.counted++ {
		n := r.scenario.Partitions
		if r.counted > 0 {
			n = r.counts[r.counted-1]
		}
		if partitionOf(key, n) == partition {
			return nil
		}
	}
	return fmt.Errorf("chaos: key %s is in partition %d, want %d", key, partition, partitionOf(key, r.partitions()))
}

// addCount notes the end of a resize. The first record of a new partition names the last
// input message of the old partitions.
func (r *run) addCount(ctx context.Context, js jetstream.JetStream, to int) error {
	m, err := lastRecord(ctx, js, 0)
	if err != nil {
		return err
	}
	cut, err := strconv.ParseUint(m.Header.Get(headerInSeq), 10, 64)
	if err != nil {
		return fmt.Errorf("chaos: the first record after the resize to %d: %w", to, err)
	}
	r.counts, r.cuts = append(r.counts, to), append(r.cuts, cut)
	return nil
}

// layout returns the number of partitions in which the stage reads an input message. The
// partition of a message may be equal under two numbers, and does not show it.
func (r *run) layout(seq uint64) int {
	n := r.scenario.Partitions
	for i, cut := range r.cuts {
		if seq > cut {
			n = r.counts[i]
		}
	}
	return n
}

// evacuate kills every worker and leaves the seats empty; back refills the seats, with
// changed arguments.
func (f *fleet) evacuate() (back func(change func(args []string))) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.seats)
	for _, w := range f.seats {
		if w != nil && !w.hasEnded() {
			w.kill()
		}
	}
	f.seats, f.absent = nil, true
	return func(change func(args []string)) {
		f.mu.Lock()
		change(f.args)
		f.absent = false
		f.mu.Unlock()
		f.setScale(n)
	}
}

// setFlag replaces the value of a flag.
func setFlag(args []string, flag, value string) { args[slices.Index(args, flag)+1] = value }

// changeJob runs a command that changes the job, and kills the command several times: the
// same command continues.
func (r *run) changeJob(ctx context.Context, rng *rand.Rand, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	args = append([]string{r.worker, "job", name, "-c", filepath.Join(r.dir, "worker.yaml"), "--job", job, "--nats-url", r.cluster.url()}, args...)
	for kills := 0; ; kills++ {
		p, err := r.procs.start(fmt.Sprintf("%s-%d-%d", name, r.changes, kills), nil, args...)
		if err != nil {
			return err
		}
		var dies <-chan time.Time
		if kills < changeKills {
			dies = time.After(time.Duration(100+rng.IntN(900)) * time.Millisecond)
		}
		select {
		case <-p.done:
			r.changes++
			if p.exitStatus() != endedWell {
				return fmt.Errorf("job %s ended with %s: see %s.log", name, p.exitStatus(), p.name)
			}
			return nil
		case <-dies:
			p.kill()
		case <-ctx.Done():
			p.kill()
			return ctx.Err()
		}
	}
}

// resized changes the job's number of partitions under load.
func resized(at float64, to int) harm {
	what := "resize to " + strconv.Itoa(to)
	return harm{what, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		back := r.fleet.evacuate()
		r.truth.resized = true
		if err := r.changeJob(ctx, r.newRand(what), "resize", strconv.Itoa(to), "--model", filepath.Join(r.dir, "model.safetensors")); err != nil {
			return err
		}
		if err := r.addCount(ctx, js, to); err != nil {
			return err
		}
		back(func(args []string) { setFlag(args, "--partitions", strconv.Itoa(to)) })
		return nil
	}}
}

// replaced is two harms: a second job with another network starts to read the job's
// input, and later replaces the job.
func replaced(begin, at float64) []harm {
	model := func(r *run) string { return filepath.Join(r.dir, second+".safetensors") }
	start := func(r *run) (err error) {
		r.successor, err = r.procs.start(second, nil, r.worker, "run", "-c", filepath.Join(r.dir, "worker.yaml"), "--model", model(r),
			"--job", second, "--input-job", job, "--partitions", strconv.Itoa(r.scenario.Partitions), "--nats-url", r.cluster.url())
		return err
	}
	return []harm{
		{"second job", begin, func(_ context.Context, r *run, _ jetstream.JetStream) error {
			m := *r.next.model
			if err := m.Save(model(r)); err != nil {
				return err
			}
			return start(r)
		}},
		{replacement, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
			r.successor.kill()
			if err := start(r); err != nil {
				return err
			}
			last, err := lastSeq(ctx, js, inputStream)
			if err != nil {
				return err
			}
			if err := awaitAnswer(ctx, js, "SECOND-OUT", last-min(last, 200)); err != nil {
				return err
			}
			r.successor.kill()
			back := r.fleet.evacuate()
			if err := r.changeJob(ctx, r.newRand(second), "replace", "--with", second); err != nil {
				return err
			}
			back(func(args []string) { setFlag(args, "--model", model(r)) })
			return nil
		}},
	}
}

// awaitAnswer waits until the last message of a job's output answers an input message.
func awaitAnswer(ctx context.Context, js jetstream.JetStream, output string, message uint64) error {
	for begin := time.Now(); time.Since(begin) < answerWithin; time.Sleep(100 * time.Millisecond) {
		s, err := js.Stream(ctx, output)
		if err != nil {
			continue
		}
		m, err := s.GetMsg(ctx, s.CachedInfo().State.LastSeq)
		if err != nil {
			continue
		}
		if in, err := strconv.ParseUint(m.Header.Get(headerInSeq), 10, 64); err == nil && in >= message {
			return nil
		}
	}
	return fmt.Errorf("%s did not reach input message %d in %v", output, message, answerWithin)
}

// handover is the switch from a network to its successor.
type handover struct {
	after   map[string][]codec.Prediction // predictions of the successor; nil without a successor
	network string                        // network of the first predictions
	until   uint64                        // the last input message answered by the first network
	from    uint64                        // the first input message answered by the successor; 0 = none yet
}

// checkChange compares a record with the previous record, across changes of the job:
// epochs rise with each change, and all partitions change the network at the same input
// message. It reports whether the successor made the predictions.
func (a *audit) checkChange(s stored, before, c commit, predicts bool) (after bool) {
	if c.generation < before.generation || c.generation > before.generation && before.worker != "" && c.epoch <= before.epoch {
		a.addFault("output message %d: generation %d epoch %d after generation %d epoch %d", s.seq, c.generation, c.epoch, before.generation, before.epoch)
	}
	h := &a.change
	if h.after == nil || !predicts {
		return false
	}
	network := s.header.Get("Eusn-Network")
	if h.network == "" {
		h.network = network
	}
	if network == h.network {
		h.until = max(h.until, c.in)
	} else if h.from == 0 || c.in < h.from {
		h.from = c.in
	}
	if h.from > 0 && h.from <= h.until {
		a.addFault("output message %d: the new network answers input message %d, the previous network message %d", s.seq, h.from, h.until)
	}
	return network != h.network
}
