//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// companions are the processes next to the stage that a run kills; nil if absent.
type companions struct {
	alarms, recorder, gateway *proc

	labels  map[string]map[string]int // number of labels, by stream and class
	given   map[string]bool           // predictions with a label
	labeled uint64                    // the last output message whose predictions may have a label
}

// Kinds of harms to the companions. A run starts a companion if a harm kills it.
const (
	alarmKill    = "kill of alarms"
	recorderKill = "kill of the recorder"
	gatewayKill  = "kill of the gateway"
	learnKill    = "kill of learn"
)

// Controls: the part that is missing in the run.
const (
	noRequestIDs = "Idempotency-Key"
	noSecondFile = "second file of the recording"
	noFirstKey   = "stream of learn"
)

// errFound ends the run of a control after its fault was found.
var errFound = errors.New("chaos: found")

// reportDifference returns the error of a run in which a companion did something wrong.
func (r *run) reportDifference(format string, args ...any) error {
	if r.scenario.control() != "" {
		return errFound
	}
	return fmt.Errorf("chaos: "+format, args...)
}

// startCompanions starts the companions that the run kills.
func (r *run) startCompanions(ctx context.Context, js jetstream.JetStream) error {
	if r.scenario.countHarms(gatewayKill) > 0 {
		if err := r.startGateway(); err != nil {
			return err
		}
	}
	if r.scenario.countHarms(recorderKill) > 0 {
		r.truth.heard = map[string][]heard{}
		if err := r.startRecorder(); err != nil {
			return err
		}
	}
	if r.scenario.countHarms(alarmKill) == 0 {
		return nil
	}
	if err := r.startAlarms(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return retryRequest(ctx, func(ctx context.Context) error {
		s, err := js.Stream(ctx, alarmStream)
		if err == nil && s.CachedInfo().State.Msgs == 0 {
			err = fmt.Errorf("chaos: %s is empty", alarmStream)
		}
		return err
	})
}

// killsOf are harms that kill a companion; a new one starts at once.
func killsOf(what string, of func(*companions) *proc, start func(*run) error, at ...float64) (all []harm) {
	for _, at := range at {
		all = append(all, harm{what, at, func(_ context.Context, r *run, _ jetstream.JetStream) error {
			if err := r.revive(of, start); err != nil {
				return err
			}
			p := of(&r.companions)
			p.kill()
			if !p.wasKilled() {
				return fmt.Errorf("%s had ended by itself: %s", p.name, p.exitStatus())
			}
			return start(r)
		}})
	}
	return all
}

// revive restarts a companion that found no server at its start, as a supervisor does.
func (r *run) revive(of func(*companions) *proc, start func(*run) error) error {
	if p := of(&r.companions); !p.hasEnded() || p.exitStatus() != unreachable {
		return nil
	}
	return start(r)
}

// startProgram starts a command of the program for the job, with the workers'
// configuration and model.
func (r *run) startProgram(name, command string, args ...string) (*proc, error) {
	args = append([]string{r.worker, command, "-c", filepath.Join(r.dir, "worker.yaml"), "--model", filepath.Join(r.dir, "model.safetensors"),
		"--job", job, "--nats-url", r.cluster.url()}, args...)
	return r.procs.start(name, nil, args...)
}

// alarmRule is the rule of the runs with alarms; expectedAlarms implements the rule
// independently.
const alarmRule = "class \"class 1\", 2 of 3, clear after 2"

func (r *run) startAlarms() (err error) {
	conf := filepath.Join(r.dir, "alarms.yaml")
	if err := os.WriteFile(conf, []byte("alarms: {rules: {one: '"+alarmRule+"'}}\n"), 0o644); err != nil {
		return err
	}
	r.companions.alarms, err = r.procs.start("alarms", nil, r.worker, "alarms", "run", "-c", conf, "--job", job, "--nats-url", r.cluster.url())
	return err
}

func alarmKills(at ...float64) []harm {
	return killsOf(alarmKill, func(b *companions) *proc { return b.alarms }, (*run).startAlarms, at...)
}

func (r *run) startGateway() (err error) {
	if r.producers.door == nil {
		ports, err := freePorts(1)
		if err != nil {
			return err
		}
		address := net.JoinHostPort(loopback, strconv.Itoa(ports[0]))
		if r.producers.door, err = newDoor(r.producers.plan, address, r.scenario.Control == noRequestIDs); err != nil {
			return err
		}
	}
	conf := filepath.Join(r.dir, "gateway.yaml")
	if err := os.WriteFile(conf, []byte("input: {time: $.time, time_unit: ns}\ngateway: {http: "+strconv.Quote(r.producers.door.address)+"}\n"), 0o644); err != nil {
		return err
	}
	r.companions.gateway, err = r.procs.start("gateway", nil, r.worker, "gateway", "-c", conf, "--model", filepath.Join(r.dir, "model.safetensors"),
		"--job", job, "--nats-url", r.cluster.url(), "--outbox", filepath.Join(r.dir, "outbox"))
	return err
}

func gatewayKills(at ...float64) []harm {
	return killsOf(gatewayKill, func(b *companions) *proc { return b.gateway }, (*run).startGateway, at...)
}

// checkPosted checks a message that the gateway has stored.
func (r *run) checkPosted(s stored, key string) error {
	seq, err := s.parseNumber(headerSeq)
	if err != nil {
		return err
	}
	if err := r.checkPlacement(key, s.partition); err != nil {
		return err
	}
	m, done, why, err := r.producers.door.checkStored(key, s.header.Get("Eusn-Incarnation"), seq, s.time, s.data)
	if err != nil {
		return err
	}
	if why != "" {
		return r.reportDifference("%s", why)
	}
	if r.stored[key] == nil {
		r.stored[key] = map[uint64]bool{}
	}
	for _, seq := range done {
		r.stored[key][seq] = true
	}
	return r.truth.readInput(m, s.seq)
}

func (r *run) startRecorder() (err error) {
	r.companions.recorder, err = r.startProgram("recorder", "record", "--output", filepath.Join(r.dir, "recording"), "--interval", "300ms")
	return err
}

func theRecorder(b *companions) *proc { return b.recorder }

func recorderKills(at ...float64) []harm {
	return killsOf(recorderKill, theRecorder, (*run).startRecorder, at...)
}

// endRecording ends the recorder, records the remaining samples, and returns the files.
func (r *run) endRecording() ([]string, error) {
	if err := r.revive(theRecorder, (*run).startRecorder); err != nil {
		return nil, err
	}
	if how := r.companions.recorder.stop(workerStop); how != endedWell {
		r.result.addFailure("record ended with %s", how)
	}
	dir := filepath.Join(r.dir, "recording")
	p, err := r.startProgram("recorder", "record", "--output", dir, "--until", "now")
	if err != nil {
		return nil, err
	}
	<-p.done
	if p.exitStatus() != endedWell {
		return nil, fmt.Errorf("chaos: record --until now ended with %s: see recorder.log", p.exitStatus())
	}
	return recordingFiles(dir)
}

// compareRecording expects the samples used by the stage, each once and in order.
func (r *run) compareRecording(ctx context.Context) error {
	files, err := r.endRecording()
	if err != nil {
		return err
	}
	if len(files) < 3 {
		return fmt.Errorf("chaos: the recording has %d files: %s", len(files), shownNothing)
	}
	if r.scenario.Control == noSecondFile {
		files = slices.Delete(files, 1, 2)
	}
	return r.judgeRecording(ctx, files)
}

// judgeRecording compares the files of a recording with the samples used by the stage.
func (r *run) judgeRecording(ctx context.Context, files []string) error {
	got, why, err := readRecording(ctx, files)
	if err != nil {
		return err
	}
	if why != "" {
		return r.reportDifference("%s", why)
	}
	for _, id := range slices.Sorted(maps.Keys(r.truth.heard)) {
		want, got := r.truth.heard[id], got[id]
		for i := range max(len(want), len(got)) {
			if i >= len(want) || i >= len(got) || want[i] != got[i] {
				return r.reportDifference("the recording of %s has %d samples, want %d, and differs from sample %d on: %+v, want %+v", id, len(got), len(want), i+1, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
			}
		}
	}
	if len(got) != len(r.truth.heard) {
		return r.reportDifference("the recording has %d streams, want %d", len(got), len(r.truth.heard))
	}
	return nil
}
