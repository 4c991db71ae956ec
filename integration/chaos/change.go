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
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// jobFaults are runs in which something happens to the job as a whole.
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
		harmed("empty", flaggedOrStopped, empty(0.5, false, allStreams...)),
		harmed("empty-unnumbered", flaggedOrStopped, empty(0.5, false, allStreams...)).with(nameless),
		harmed("empty-restart", flaggedOrStopped, empty(0.5, true, allStreams...)),
		harmed("empty-output", orStopped, empty(0.5, false, statesAndOutput...)),
		harmed("empty-output-restart", orStopped, empty(0.5, true, statesAndOutput...)),

		// A killed worker's consumers stay for half a minute: a server's default is
		// 1,000 of them on a NATS stream.
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

// empty kills the server and removes all that the job's NATS streams hold. They come
// back with their configuration and their creation time, as a server of a cluster makes
// them after its disk is lost. With restart the workers are killed, too.
func empty(at float64, restart bool, streams ...string) harm {
	return harm{"emptied " + strings.Join(streams, " and "), at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		r.fleet.cutAll()
		defer r.fleet.mendAll()
		n, err := r.cluster.down()
		if err != nil {
			return err
		}
		for _, name := range streams {
			dir := r.cluster.storeDir(n, name)
			if _, err := os.Stat(filepath.Join(dir, "msgs")); err != nil {
				return err
			}
			err := errors.Join(os.RemoveAll(filepath.Join(dir, "msgs")), os.RemoveAll(filepath.Join(dir, "obs")), os.Mkdir(filepath.Join(dir, "msgs"), 0o755))
			if err != nil {
				return err
			}
		}
		if restart {
			r.fleet.killAll()
		}
		return r.cluster.start(n)
	}}
}

// allStreams are those of a job.
var allStreams = []string{inputStream, outputStream, snapStream, rowStream, memberStream}

const (
	changeKills  = 3               // of the command that changes a job
	changeWithin = 2 * time.Minute // it, with its kills
	replacement  = "replacement"
	second       = "second" // the job whose network and states replace the first one's
)

// partitions is how many the job has now.
func (r *run) partitions() int {
	if n := len(r.counts); n > 0 {
		return r.counts[n-1]
	}
	return r.scenario.Partitions
}

// placed checks the partition of a stored message: that of the number of partitions then.
func (r *run) placed(key string, partition int) error {
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

// away kills every worker and leaves the seats empty; back fills them again, with other
// arguments.
func (f *fleet) away() (back func(change func(args []string))) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.seats)
	for _, w := range f.seats {
		if w != nil && !w.ended() {
			w.kill()
		}
	}
	f.seats, f.absent = nil, true
	return func(change func(args []string)) {
		f.mu.Lock()
		change(f.args)
		f.absent = false
		f.mu.Unlock()
		f.scale(n)
	}
}

// set replaces the value of a flag.
func set(args []string, flag, value string) { args[slices.Index(args, flag)+1] = value }

// change runs a command that changes the job, and kills it several times: the same
// command continues.
func (r *run) change(ctx context.Context, rng *rand.Rand, name string, args ...string) error {
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
			if p.how() != endedWell {
				return fmt.Errorf("job %s ended with %s: see %s.log", name, p.how(), p.name)
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

// resized gives the job another number of partitions while messages come.
func resized(at float64, to int) harm {
	what := "resize to " + strconv.Itoa(to)
	return harm{what, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
		back := r.fleet.away()
		if err := r.change(ctx, r.rng(what), "resize", "--to", strconv.Itoa(to), "--model", filepath.Join(r.dir, "model.safetensors")); err != nil {
			return err
		}
		r.counts = append(r.counts, to)
		back(func(args []string) { set(args, "--partitions", strconv.Itoa(to)) })
		return nil
	}}
}

// replaced are two harms: a second job with another network begins to read the job's
// input, and later takes its place.
func replaced(begin, at float64) []harm {
	var worker *proc
	model := func(r *run) string { return filepath.Join(r.dir, second+".safetensors") }
	start := func(r *run) (err error) {
		worker, err = r.procs.start(second, nil, r.worker, "run", "-c", filepath.Join(r.dir, "worker.yaml"), "--model", model(r),
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
			worker.kill()
			if err := start(r); err != nil {
				return err
			}
			last, err := lastSeq(ctx, js, inputStream)
			if err != nil {
				return err
			}
			if err := r.caughtUp(ctx, js, last); err != nil {
				return err
			}
			worker.kill()
			back := r.fleet.away()
			if err := r.change(ctx, r.rng(second), "replace", "--with", second); err != nil {
				return err
			}
			back(func(args []string) { set(args, "--model", model(r)) })
			return nil
		}},
	}
}

// caughtUp waits until the second job has made a prediction of a late message.
func (r *run) caughtUp(ctx context.Context, js jetstream.JetStream, last uint64) error {
	const near = 200 // messages
	for begin := time.Now(); time.Since(begin) < answerWithin; time.Sleep(100 * time.Millisecond) {
		s, err := js.Stream(ctx, "SECOND-OUT")
		if err != nil {
			continue
		}
		m, err := s.GetMsg(ctx, s.CachedInfo().State.LastSeq)
		if err != nil {
			continue
		}
		if in, err := strconv.ParseUint(m.Header.Get(headerInSeq), 10, 64); err == nil && in+near > last {
			return nil
		}
	}
	return fmt.Errorf("job %s did not come within %d messages of %d in %v", second, near, last, answerWithin)
}

// otherNetwork draws the model of the second job.
func otherNetwork(s *scenario) (*reservoir.Model, error) { return drawModel(s.Policy, 4, 5, 3) }

// handover is where one network ends and another begins.
type handover struct {
	then    map[string][]codec.Prediction // of the network after; nil without one
	network string                        // that made the first predictions
	until   uint64                        // the last input message that it has answered
	from    uint64                        // the first one that the network after has answered; 0 = none yet
}

// replaced has the audit expect other predictions after a change of the network. Both
// networks make one wherever the other does.
func (a *audit) replaced(then map[string][]codec.Prediction) { a.change.then = then }

// changed checks a record against the one before it, across changes of the job: epochs
// rise with each, and all partitions change the network at the same input message. It
// reports whether the network after the change made the record's predictions.
func (a *audit) changed(s stored, before, c commit, predicts bool) (after bool) {
	if c.generation < before.generation || c.generation > before.generation && before.worker != "" && c.epoch <= before.epoch {
		a.fault("output message %d: generation %d epoch %d after generation %d epoch %d", s.seq, c.generation, c.epoch, before.generation, before.epoch)
	}
	h := &a.change
	if h.then == nil || !predicts {
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
		a.fault("output message %d: the network after answers input message %d, the one before message %d", s.seq, h.from, h.until)
	}
	return network != h.network
}
