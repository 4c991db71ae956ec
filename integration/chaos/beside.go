//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// beside are the processes beside the stage that a run kills; nil without.
type beside struct {
	alarms, recorder, gateway *proc

	labels   map[string]map[string]int // how many were given: by stream, by class
	labelled uint64                    // the output's last message whose predictions may have a label
}

// Kinds of harms to them. A run has the process if it plans to kill it.
const (
	alarmKill    = "kill of alarms"
	recorderKill = "kill of the recorder"
	gatewayKill  = "kill of the gateway"
	learnKill    = "kill of learn"
)

// Controls: what is missing in the run.
const (
	noRequestIDs = "Idempotency-Key"
	noSecondFile = "second file of the recording"
	noFirstKey   = "stream of learn"
)

// errFound ends the run of a control: its fault is found.
var errFound = errors.New("chaos: found")

// differs is the error of a run in which a process beside the stage did something wrong.
func (r *run) differs(format string, args ...any) error {
	if r.scenario.control() != "" {
		return errFound
	}
	return fmt.Errorf("chaos: "+format, args...)
}

// watch starts the processes beside the stage that the run kills.
func (r *run) watch(ctx context.Context, js jetstream.JetStream) error {
	if r.scenario.harms(gatewayKill) > 0 {
		if err := r.startGateway(); err != nil {
			return err
		}
	}
	if r.scenario.harms(recorderKill) > 0 {
		r.truth.heard = map[string][]heard{}
		if err := r.startRecorder(); err != nil {
			return err
		}
	}
	if r.scenario.harms(alarmKill) == 0 {
		return nil
	}
	if err := r.startAlarms(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return asking(ctx, func(ctx context.Context) error {
		s, err := js.Stream(ctx, alarmStream)
		if err == nil && s.CachedInfo().State.Msgs == 0 {
			err = fmt.Errorf("chaos: %s is empty", alarmStream)
		}
		return err
	})
}

// kills are harms that kill such a process; another one starts at once.
func kills(what string, of func(*beside) *proc, start func(*run) error, at ...float64) (all []harm) {
	for _, at := range at {
		all = append(all, harm{what, at, func(_ context.Context, r *run, _ jetstream.JetStream) error {
			if err := r.revive(of, start); err != nil {
				return err
			}
			p := of(&r.beside)
			p.kill()
			if !p.killed() {
				return fmt.Errorf("%s had ended by itself: %s", p.name, p.how())
			}
			return start(r)
		}})
	}
	return all
}

// revive starts a process again that found no server when it began, as a supervisor does.
func (r *run) revive(of func(*beside) *proc, start func(*run) error) error {
	if p := of(&r.beside); !p.ended() || p.how() != unreachable {
		return nil
	}
	return start(r)
}

// program starts a command of the program for the job, with the workers' configuration
// and model.
func (r *run) program(name, command string, args ...string) (*proc, error) {
	args = append([]string{r.worker, command, "-c", filepath.Join(r.dir, "worker.yaml"), "--model", filepath.Join(r.dir, "model.safetensors"),
		"--job", job, "--nats-url", r.cluster.url()}, args...)
	return r.procs.start(name, nil, args...)
}

// alarmRule is the rule of the runs with alarms, which judge repeats in words of its own.
const alarmRule = "class \"class 1\", 2 of 3, clear after 2"

func (r *run) startAlarms() (err error) {
	conf := filepath.Join(r.dir, "alarms.yaml")
	if err := os.WriteFile(conf, []byte("alarms: {rules: {one: '"+alarmRule+"'}}\n"), 0o644); err != nil {
		return err
	}
	r.beside.alarms, err = r.procs.start("alarms", nil, r.worker, "alarms", "run", "-c", conf, "--job", job, "--nats-url", r.cluster.url())
	return err
}

func alarmKills(at ...float64) []harm {
	return kills(alarmKill, func(b *beside) *proc { return b.alarms }, (*run).startAlarms, at...)
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
	r.beside.gateway, err = r.procs.start("gateway", nil, r.worker, "gateway", "-c", conf, "--model", filepath.Join(r.dir, "model.safetensors"),
		"--job", job, "--nats-url", r.cluster.url(), "--outbox", filepath.Join(r.dir, "outbox"))
	return err
}

func gatewayKills(at ...float64) []harm {
	return kills(gatewayKill, func(b *beside) *proc { return b.gateway }, (*run).startGateway, at...)
}

// posted takes a message that the gateway has stored.
func (r *run) posted(s stored, key string) error {
	seq, err := s.number(headerSeq)
	if err != nil {
		return err
	}
	if err := r.placed(key, s.partition); err != nil {
		return err
	}
	m, done, why, err := r.producers.door.take(key, s.header.Get("Eusn-Incarnation"), seq, s.data)
	if err != nil {
		return err
	}
	if why != "" {
		return r.differs("%s", why)
	}
	if r.stored[key] == nil {
		r.stored[key] = map[uint64]bool{}
	}
	for _, seq := range done {
		r.stored[key][seq] = true
	}
	return r.truth.take(m, s.seq)
}

func (r *run) startRecorder() (err error) {
	r.beside.recorder, err = r.program("recorder", "record", "--out", filepath.Join(r.dir, "recording"), "--every", "300ms")
	return err
}

func theRecorder(b *beside) *proc { return b.recorder }

func recorderKills(at ...float64) []harm {
	return kills(recorderKill, theRecorder, (*run).startRecorder, at...)
}

// endRecording ends the recorder, records the rest, and returns the files.
func (r *run) endRecording() ([]string, error) {
	if err := r.revive(theRecorder, (*run).startRecorder); err != nil {
		return nil, err
	}
	if how := r.beside.recorder.stop(workerStop); how != endedWell {
		r.result.fail("record ended with %s", how)
	}
	dir := filepath.Join(r.dir, "recording")
	p, err := r.program("recorder", "record", "--out", dir, "--until", "now")
	if err != nil {
		return nil, err
	}
	<-p.done
	if p.how() != endedWell {
		return nil, fmt.Errorf("chaos: record --until now ended with %s: see recorder.log", p.how())
	}
	return recorded(dir)
}

// compareRecording expects the samples that the stage uses, each once and in order.
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
	got, why, err := readRecording(ctx, files)
	if err != nil {
		return err
	}
	if why != "" {
		return r.differs("%s", why)
	}
	for _, id := range slices.Sorted(maps.Keys(r.truth.heard)) {
		want, got := r.truth.heard[id], got[id]
		for i := range max(len(want), len(got)) {
			if i >= len(want) || i >= len(got) || want[i] != got[i] {
				return r.differs("the recording of %s has %d samples, want %d, and differs from sample %d on: %+v, want %+v", id, len(got), len(want), i+1, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
			}
		}
	}
	if len(got) != len(r.truth.heard) {
		return r.differs("the recording has %d streams, want %d", len(got), len(r.truth.heard))
	}
	return nil
}

// learnKills are harms that label what has been predicted since the last one, and kill
// the command that learns from it.
func learnKills(at ...float64) (all []harm) {
	for _, at := range at {
		all = append(all, harm{learnKill, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
			if err := r.label(ctx, js); err != nil {
				return err
			}
			rng := r.rng(fmt.Sprint(learnKill, at))
			for range changeKills {
				p, err := r.learn("learnt")
				if err != nil {
					return err
				}
				select {
				case <-p.done: // it was faster
				case <-time.After(time.Duration(100+rng.IntN(1500)) * time.Millisecond):
					p.kill()
				}
			}
			return nil
		}})
	}
	return all
}

// learn starts the command, with a store of this name.
func (r *run) learn(store string, more ...string) (*proc, error) {
	return r.program("learn", "learn", append([]string{"--json", "--store", filepath.Join(r.dir, store), "--out", filepath.Join(r.dir, store+".safetensors")}, more...)...)
}

// label says of one in four predictions that the output has what they should have been.
func (r *run) label(ctx context.Context, js jetstream.JetStream) (err error) {
	if r.beside.labels == nil {
		r.beside.labels = map[string]map[string]int{}
	}
	give := func(p codec.Prediction) error {
		h := fnv.New32a()
		fmt.Fprint(h, p.Stream, p.Seq, p.Row)
		n := h.Sum32()
		if n%4 != 0 || p.Flags&outcome.FlagEarly != 0 {
			return nil
		}
		class := fmt.Sprint("class ", n/4%3)
		if len(r.beside.labels) == 0 { // it makes the NATS stream of the labels
			p, err := r.procs.start("label", nil, r.worker, "labels", "add", "--job", job, "--nats-url", r.cluster.url(), "--who", "chaos",
				"--stream", p.Stream, "--seq", strconv.FormatUint(p.Seq, 10), "--row", fmt.Sprint(p.Row), "--class", class)
			if err != nil {
				return err
			}
			if <-p.done; p.how() != endedWell {
				return fmt.Errorf("labels add ended with %s: see label.log", p.how())
			}
		} else {
			text, err := json.Marshal(map[string]any{"stream": p.Stream, "seq": p.Seq, "row": p.Row, "label": class, "who": "chaos", "when": time.Now()})
			if err != nil {
				return err
			}
			m := &nats.Msg{Subject: job + ".labels." + p.Stream, Data: text, Header: nats.Header{headerKind: {"label"}}}
			m.Header.Set(jetstream.MsgIDHeader, fmt.Sprint(p.Stream, " ", p.Seq, " ", p.Row))
			if err := asking(ctx, func(ctx context.Context) error { _, err := js.PublishMsg(ctx, m); return err }); err != nil {
				return err
			}
		}
		if r.beside.labels[p.Stream] == nil {
			r.beside.labels[p.Stream] = map[string]int{}
		}
		r.beside.labels[p.Stream][class]++
		return nil
	}
	r.beside.labelled, err = readOn(ctx, js, outputStream, r.beside.labelled, false, func(s stored) error {
		_, predictions, err := codec.DecodePredictions(s.data)
		for _, p := range predictions {
			if err == nil {
				err = give(p)
			}
		}
		return err
	})
	return err
}

// learnt is what learn prints.
type learnt struct {
	Used      int `json:"labels_used"`
	Sequences int
	Classes   map[string]int
	Streams   map[string]int
}

// runLearn runs learn with a store until it ends.
func (r *run) runLearn(store string) (did learnt, err error) {
	os.Remove(filepath.Join(r.dir, "learn.log"))
	var more []string
	if r.scenario.Control == noFirstKey {
		more = []string{"--without", "stream=" + r.producers.plan.keys[1]}
	}
	p, err := r.learn(store, more...)
	if err != nil {
		return did, err
	}
	<-p.done
	text, err := os.ReadFile(filepath.Join(r.dir, "learn.log"))
	if err != nil || p.how() != endedWell {
		return did, fmt.Errorf("chaos: learn ended with %s: %s (%v)", p.how(), text, err)
	}
	if err := json.Unmarshal(text[bytes.IndexByte(text, '{'):], &did); err != nil {
		return did, fmt.Errorf("chaos: learn printed %s: %w", text, err)
	}
	return did, nil
}

// compareLearnt expects that learn, which was killed again and again, has used each label
// once, and has learnt what it learns in a new store.
func (r *run) compareLearnt(ctx context.Context, js jetstream.JetStream) error {
	if err := r.label(ctx, js); err != nil {
		return err
	}
	streams, classes, total := map[string]int{}, map[string]int{}, 0
	for id, of := range r.beside.labels {
		for class, n := range of {
			streams[id] += n
			classes[class] += n
			total += n
		}
	}
	if len(classes) < 3 {
		return fmt.Errorf("chaos: labels of %v alone: %s", classes, shownNothing)
	}
	var weights [2][]float32
	for i, store := range []string{"learnt", "afresh"} {
		did, err := r.runLearn(store)
		if err != nil {
			return err
		}
		if did.Used != total || did.Sequences != total || !maps.Equal(did.Classes, classes) || !maps.Equal(did.Streams, streams) {
			return r.differs("learn, store %s: %d labels used, %d sequences of classes %v, want %d of %v; streams %v, want %v", store, did.Used, did.Sequences, did.Classes, total, classes, did.Streams, streams)
		}
		m, err := reservoir.Load(filepath.Join(r.dir, store+".safetensors"))
		if err != nil {
			return err
		}
		weights[i] = slices.Concat(m.Readouts[0].Center, m.Readouts[0].Weights, m.Readouts[0].Intercept)
	}
	if !slices.Equal(weights[0], weights[1]) {
		return r.differs("learn has learnt another readout than in a new store")
	}
	return nil
}
