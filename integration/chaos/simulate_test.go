//go:build simulation && chaos && linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// history is one run of the world with a seed.
type history struct {
	*run
	world  *world
	job    pipeline.Job
	faults sync.WaitGroup
	events []event

	guests    []*guest
	gateway   *doorway // nil: none
	pipelined []string // keys of pipelining devices
	keepers   *keepers // of alarms; nil: none
	recorder  *recorder
	learner   *learner
	backfill  *backfill

	altered *alteration // nil: none
	kept    uint64      // last message of the backup of the input that is to return between two workers
	spilled bool        // rows of states were stored apart
	told    []stored    // read from the output before it was lost
	stopped int         // partitions that the damage has stopped, at the end
	cut     bool        // a message of the output is unreadable after a bit flip
	parts   int         // messages of the output that are followed by another part of their commit
	newest  time.Time
	resizes int // started
	rewound int // messages of the output that are older than the previous message

	folder string        // of all files of the history
	log    *bytes.Buffer // lines of the log

	mu       sync.Mutex
	failures []string
}

// report is the result of a history, a line of JSON.
type report struct {
	Seed        uint64         `json:"seed"`
	Trace       string         `json:"trace"`
	Failures    []string       `json:"failures,omitempty"`
	Predictions int            `json:"predictions"`
	States      int            `json:"states"`
	Faults      map[string]int `json:"faults"`
	Seen        map[string]int `json:"seen"` // states that some histories should reach
	Exits       map[string]int `json:"exits,omitempty"`
	Virtual     float64        `json:"virtual_s"`
}

func (h *history) fail(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = append(h.failures, fmt.Sprintf(format, args...))
}

// TestSimulate runs the history of plan.json in the folder of temporary files, prints a
// line about it and ends the process. With SEED, it first draws that plan. See
// tools/simulate.
func TestSimulate(t *testing.T) {
	const most = 8 << 30 // bytes: a server without end must not take the memory of the machine
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
	if seed := os.Getenv("SEED"); seed != "" {
		t.Fatal(replaceProcess(seed, filepath.Join(os.TempDir(), "plan.json")))
	}
	dir := filepath.Join(os.TempDir(), "simulated") // of one length: lengths of paths decide addresses, and addresses the order of maps
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p, err := readPlan(filepath.Join(os.TempDir(), "plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // paths in messages are equal in all processes
	simulatePlan(t, p, dir)
}

// simulatePlan runs a history and ends the process: a client of NATS may leave goroutines
// that wait for an answer without end, which a bubble may not have at its end.
func simulatePlan(t *testing.T, p *plannedHistory, dir string) {
	log := new(bytes.Buffer) // printed at the end: system calls between the events would change their order
	synctest.Test(t, func(t *testing.T) {
		seed := p.Seed
		cryptotest.SetGlobalRandom(t, seed)
		simSeed(seed)
		s := p.scenario
		h := &history{
			run:   &run{scenario: s, seed: seed, stored: map[string]map[uint64]bool{}, result: newResult(s, seed)},
			world: newWorld(seed, "history", log), events: p.events, folder: dir, log: log,
		}
		go func() {
			time.Sleep(endsWithin)
			h.fail("the history did not end within %v of its clock: %s", endsWithin, stackOf("(*history).perform")+stackOf("(*guest).start.func"))
			h.report()
		}()
		if err := h.perform(); err != nil {
			h.fail("%v", err)
		}
		h.conclude()
		h.report()
	})
}

// endsWithin is longer than all time limits of a history together.
const endsWithin = 2 * time.Hour

// stuckAfter is noProgress of histories. With few slots and a slow connection, a batch reads
// rows one after another, for more than a minute.
const stuckAfter = 4 * noProgress

// report prints the result of the history, and ends the process.
func (h *history) report() {
	r := report{
		Seed: h.seed, Trace: fmt.Sprintf("%016x", h.world.trace.Sum64()), Failures: h.failures,
		Faults: h.world.counts, Exits: h.world.exits, States: h.result.States, Virtual: time.Since(h.world.begin).Seconds(),
	}
	r.Seen = h.countSeen()
	if h.audit != nil {
		r.Predictions = h.audit.total
	}
	line, _ := json.Marshal(r)
	if os.Getenv("LOG") != "" {
		os.Stderr.Write(h.log.Bytes())
	}
	fmt.Printf("HISTORY %s\n", line)
	os.RemoveAll(h.folder)
	os.Exit(0)
}

// perform is the course of a history, as run.perform is of a run of processes.
func (h *history) perform() error {
	w, s := h.world, h.scenario
	m, err := drawModel(s.Policy, 3, 5, cmp.Or(s.Classes, 3))
	if err != nil {
		return err
	}
	h.job = pipeline.Job{Config: s.jobConfig(), Model: m}
	if err := h.planInput(m); err != nil {
		return err
	}
	guestFaults, err := h.drawGuests()
	if err != nil {
		return err
	}
	w.payload, w.lag, w.single, w.disk.keeps = s.MaxPayload, s.Lag, s.countHarms(relays) > 0, s.losesPower()
	w.always, w.unsafe, w.keep = s.SyncAlways, os.Getenv("UNSAFE"), s.drawKeeping(h.seed)
	if err := w.startServer(); err != nil {
		return err
	}
	nc, err := w.dial("harness")
	if err != nil {
		return err
	}
	defer func() { h.endGuests(); w.close(nc) }()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Minute, fmt.Errorf("chaos: the history did not end within 20 virtual minutes"))
	defer cancel()
	w.setScale(s.Workers[0], h.job)
	if err := awaitStreams(ctx, js); err != nil {
		return err
	}
	if err := h.publishModels(ctx, js); err != nil {
		return err
	}
	h.startGuests(ctx, js, guestFaults)
	h.producers.js, h.producers.isOver = js, func(ctx context.Context) bool { return h.isOver(ctx, js) }
	messages := 0
	for _, all := range h.producers.plan.sends {
		messages += len(all)
	}
	h.producers.rate = float64(messages) / s.Load.Seconds()
	h.faults.Go(func() { h.breakWorld(h.events, js) })
	if err := h.producers.produceUntil(ctx); err != nil {
		return h.compareStopped(ctx, js, err)
	}
	h.awaitDevices()
	h.faults.Wait()
	if err := h.endLearner(); err != nil {
		return err
	}
	if err := h.awaitSilence(ctx, js); err != nil {
		return err
	}
	if err := h.awaitPromotions(ctx, js); err != nil {
		return err
	}
	if err := h.closeSequences(ctx, js); err != nil {
		return h.compareStopped(ctx, js, err)
	}
	h.endDoor()
	if err := h.compare(ctx, js); err != nil || h.audit.lost+h.audit.duplicated+h.audit.wrong > 0 {
		return err
	}
	if err := h.compareGuests(ctx, js); err != nil {
		return err
	}
	if len(h.counts) > 0 || h.scenario.May.isLenient() || h.world.counts[trims] > 0 {
		return nil // lost input may be in the states; a job that starts with the input has other states than a resized one
	}
	return h.checkFinalStates(ctx, js)
}

// awaitPromotions waits until the newest promotion is in the input of all partitions.
func (h *history) awaitPromotions(ctx context.Context, js jetstream.JetStream) error {
	if h.world.counts[promotion]+h.world.counts[learnedPromotion] == 0 {
		return nil
	}
	newest, err := promotionOf(ctx, js)
	for begin := time.Now(); err == nil && time.Since(begin) < 4*promotedWithin; time.Sleep(200 * time.Millisecond) {
		if h.inputRead, err = readOn(ctx, js, inputStream, h.inputRead, false, h.readInput); err != nil {
			return err
		}
		late := 0
		for p := range h.scenario.Partitions {
			if h.truth.readouts.newest[p].number < newest {
				late++
			}
		}
		if late == 0 {
			return nil
		}
	}
	if err == nil {
		h.fail("promotion %d is not in the input of all partitions %v after the load", newest, 4*promotedWithin)
	}
	return err
}

// compare waits until every expected prediction is there, and compares the output.
func (h *history) compare(ctx context.Context, js jetstream.JetStream) (err error) {
	h.audit = newAudit(h.truth.predictions)
	if names := h.truth.readouts.names; len(names) > 0 {
		h.audit.first = names[0]
	}
	h.audit.may = h.scenario.May
	if err := h.checkTold(); err != nil {
		return err
	}
	holes := h.scenario.mayLoseOutput()
	read, stopped := uint64(0), stops{}
	for last, before, asked := time.Now(), -1, time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if holes && time.Since(last) > askAgainAfter && time.Since(asked) > askAgainAfter {
			asked = time.Now()
			if err := h.sendAgain(ctx, js); err != nil {
				return err
			}
		}
		if read, err = readOn(ctx, js, outputStream, read, holes, h.checkOutput); err != nil {
			return err
		}
		if h.scenario.May.Stop {
			if stopped, err = h.findStopped(); err != nil {
				return err
			}
		}
		if h.audit.countOpen(h.partitionOfStream, stopped) == 0 {
			break
		}
		if h.audit.total > before {
			before, last = h.audit.total, time.Now()
		} else if time.Since(last) > stuckAfter {
			break // missing predictions count as lost
		}
	}
	time.Sleep(settleTime)
	if _, err = readOn(ctx, js, outputStream, read, holes, h.checkOutput); err != nil {
		return err
	}
	h.stopped = len(stopped)
	h.checkKept(stopped)
	h.audit.countMissing(h.partitionOfStream, stopped)
	return h.deadLetters(ctx, js)
}

// checkOutput checks a message of the output. A flipped bit may make one message unreadable:
// the checksum of nats-server 2.15.2 does not cover the length of a message's headers.
func (h *history) checkOutput(s stored) error {
	if c, err := s.parseCommit(); err == nil && c.ahead > 0 {
		h.parts++
	}
	if s.time.Before(h.newest) {
		h.rewound++
	}
	h.newest = s.time
	err := h.audit.checkMessage(s)
	if err != nil && h.scenario.countHarms(flips) > 0 && !h.cut {
		h.cut = true
		return nil
	}
	return err
}

// conclude adds what the audit has found.
func (h *history) conclude() {
	if a := h.audit; a != nil && a.lost+a.duplicated+a.wrong > 0 {
		h.fail("%d lost, %d duplicated, %d wrong: %s", a.lost, a.duplicated, a.wrong, strings.Join(a.notes, "; "))
	}
	if !h.scenario.May.isLenient() && len(h.world.strange) > 0 {
		h.fail("%d workers ended by themselves: %v", len(h.world.strange), h.world.strange[0])
	}
	h.failures = append(h.failures, h.result.Why...)
	h.failures = append(h.failures, leftGoroutines()...)
}

// countSeen counts states that histories should reach: a plan of faults that reaches none
// of them tests nothing.
func (h *history) countSeen() map[string]int {
	seen := map[string]int{"syncs of files": h.world.disk.syncs, "parts of split commits": h.parts, "predictions older than the previous one": h.rewound}
	for _, c := range h.world.cables {
		if c.late > 0 {
			seen["workers with late traffic"]++
		}
	}
	if h.producers != nil {
		seen["repeated publishes"] = h.producers.counts.Retries
	}
	if h.truth != nil {
		seen["sequences ended by silence"], seen["messages that waited for a previous message"], seen["dropped repeats"] = h.truth.idle, h.truth.late, h.truth.dropped
	}
	if h.audit != nil {
		seen["commits taken over between their parts"], seen["changes of the worker of a partition"] = h.audit.handed, len(h.audit.workers)
		seen["predictions flagged for a loss"], seen["stopped partitions"] = h.audit.flagged, h.stopped
	}
	seen["log lines of workers with a wrong time"] = h.world.wrong
	h.countGuests(seen)
	for _, d := range disks {
		if d.room.refused > 0 {
			seen["writes refused by the full disk of the "+d.room.name] += d.room.refused
		}
	}
	if h.spilled && h.scenario.Slots > 0 {
		seen["histories with stored rows"] = 1
	}
	return seen
}

// leftGoroutines describes goroutines of the product after the end of all workers.
func leftGoroutines() (all []string) {
	time.Sleep(time.Minute)
	for stack := range allStacks() {
		if !strings.Contains(stack, "eusn-stream/eusn-stream/internal") && !strings.Contains(stack, "eusn-stream/eusn-stream/pipeline") {
			continue
		}
		if strings.Contains(stack, "natsclient.StopConsumer") {
			continue // waits for a client that holds its lock; see natsclient.StopConsumer
		}
		all = append(all, "a goroutine is left: "+stack)
	}
	return all
}

// allStacks returns the stacks of all goroutines.
func allStacks() iter.Seq[string] {
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for ; n == len(buf); n = runtime.Stack(buf, true) {
		buf = make([]byte, 2*n)
	}
	return strings.SplitSeq(string(buf[:n]), "\n\n")
}

// stackOf returns the stack of the first goroutine in a function.
func stackOf(function string) string {
	for stack := range allStacks() {
		if strings.Contains(stack, function) {
			return stack
		}
	}
	return ""
}
