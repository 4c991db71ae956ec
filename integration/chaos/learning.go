//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
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

// learnKills are harms that label the predictions since the previous harm, and kill the
// learn command.
func learnKills(at ...float64) (all []harm) {
	for _, at := range at {
		all = append(all, harm{learnKill, at, func(ctx context.Context, r *run, js jetstream.JetStream) error {
			if err := r.addLabels(ctx, js); err != nil {
				return err
			}
			rng := r.newRand(fmt.Sprint(learnKill, at))
			for range changeKills {
				p, err := r.startLearn("learned")
				if err != nil {
					return err
				}
				select {
				case <-p.done: // the command has ended already
				case <-time.After(time.Duration(100+rng.IntN(1500)) * time.Millisecond):
					p.kill()
				}
			}
			return nil
		}})
	}
	return all
}

// startLearn starts the command, with a store of this name.
func (r *run) startLearn(store string, more ...string) (*proc, error) {
	return r.startProgram("learn", "learn", append([]string{"--json", "--store", filepath.Join(r.dir, store), "--output", filepath.Join(r.dir, store+".safetensors")}, more...)...)
}

// addLabels adds a label to one in four predictions of the output.
func (r *run) addLabels(ctx context.Context, js jetstream.JetStream) (err error) {
	if r.companions.labels == nil {
		r.companions.labels = map[string]map[string]int{}
	}
	give := func(p codec.Prediction) error {
		h := fnv.New32a()
		fmt.Fprint(h, p.Stream, p.Seq, p.Row)
		n := h.Sum32()
		if n%4 != 0 || p.Flags&outcome.FlagEarly != 0 {
			return nil
		}
		class := fmt.Sprint("class ", n/4%3)
		if len(r.companions.labels) == 0 { // create the NATS stream of the labels
			p, err := r.procs.start("label", nil, r.worker, "labels", "add", "--job", job, "--nats-url", r.cluster.url(), "--who", "chaos",
				"--stream", p.Stream, "--seq", strconv.FormatUint(p.Seq, 10), "--row", fmt.Sprint(p.Row), "--class", class)
			if err != nil {
				return err
			}
			if <-p.done; p.exitStatus() != endedWell {
				return fmt.Errorf("labels add ended with %s: see label.log", p.exitStatus())
			}
		} else {
			text, err := json.Marshal(map[string]any{"stream": p.Stream, "seq": p.Seq, "row": p.Row, "label": class, "who": "chaos", "when": time.Now()})
			if err != nil {
				return err
			}
			m := &nats.Msg{Subject: job + ".labels." + p.Stream, Data: text, Header: nats.Header{headerKind: {"label"}}}
			m.Header.Set(jetstream.MsgIDHeader, fmt.Sprint(p.Stream, " ", p.Seq, " ", p.Row))
			if err := retryRequest(ctx, func(ctx context.Context) error { _, err := js.PublishMsg(ctx, m); return err }); err != nil {
				return err
			}
		}
		if r.companions.labels[p.Stream] == nil {
			r.companions.labels[p.Stream] = map[string]int{}
		}
		r.companions.labels[p.Stream][class]++
		return nil
	}
	r.companions.labeled, err = readOn(ctx, js, outputStream, r.companions.labeled, false, func(s stored) error {
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

// learned is the output of learn.
type learned struct {
	Used      int `json:"labels_used"`
	Sequences int
	Classes   map[string]int
	Streams   map[string]int
}

// runLearn runs learn with a store to its end.
func (r *run) runLearn(store string) (did learned, err error) {
	os.Remove(filepath.Join(r.dir, "learn.log"))
	var more []string
	if r.scenario.Control == noFirstKey {
		more = []string{"--exclude", "stream=" + r.producers.plan.keys[1]}
	}
	p, err := r.startLearn(store, more...)
	if err != nil {
		return did, err
	}
	<-p.done
	text, err := os.ReadFile(filepath.Join(r.dir, "learn.log"))
	if err != nil || p.exitStatus() != endedWell {
		return did, fmt.Errorf("chaos: learn ended with %s: %s (%v)", p.exitStatus(), text, err)
	}
	if err := json.Unmarshal(text[bytes.IndexByte(text, '{'):], &did); err != nil {
		return did, fmt.Errorf("chaos: learn printed %s: %w", text, err)
	}
	return did, nil
}

// compareLearned expects that learn, after all kills, has used each label once, with the
// same result as in a new store.
func (r *run) compareLearned(ctx context.Context, js jetstream.JetStream) error {
	if err := r.addLabels(ctx, js); err != nil {
		return err
	}
	streams, classes, total := map[string]int{}, map[string]int{}, 0
	for id, of := range r.companions.labels {
		for class, n := range of {
			streams[id] += n
			classes[class] += n
			total += n
		}
	}
	if len(classes) < 3 {
		return fmt.Errorf("chaos: only labels of %v: %s", classes, shownNothing)
	}
	var weights [2][]float32
	for i, store := range []string{"learned", "afresh"} {
		did, err := r.runLearn(store)
		if err != nil {
			return err
		}
		if did.Used != total || did.Sequences != total || !maps.Equal(did.Classes, classes) || !maps.Equal(did.Streams, streams) {
			return r.reportDifference("learn, store %s: %d labels used, %d sequences of classes %v, want %d of %v; streams %v, want %v", store, did.Used, did.Sequences, did.Classes, total, classes, did.Streams, streams)
		}
		m, err := reservoir.Load(filepath.Join(r.dir, store+".safetensors"))
		if err != nil {
			return err
		}
		weights[i] = slices.Concat(m.Readouts[0].Center, m.Readouts[0].Weights, m.Readouts[0].Intercept)
	}
	if !slices.Equal(weights[0], weights[1]) {
		return r.reportDifference("learn has another readout than with a new store")
	}
	return nil
}
