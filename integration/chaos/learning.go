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
	return r.labelPredictions(ctx, js, func(p codec.Prediction, class string) error { // creates the NATS stream of the labels
		command, err := r.procs.start("label", nil, r.worker, "labels", "add", "--job", job, "--nats-url", r.cluster.url(), "--who", "chaos",
			"--stream", p.Stream, "--seq", strconv.FormatUint(p.Seq, 10), "--row", fmt.Sprint(p.Row), "--class", class)
		if err != nil {
			return err
		}
		if <-command.done; command.exitStatus() != endedWell {
			return fmt.Errorf("labels add ended with %s: see label.log", command.exitStatus())
		}
		return nil
	})
}

// labelPredictions adds a label to one in four new predictions of the output. first adds
// the first label; nil: as the others.
func (r *run) labelPredictions(ctx context.Context, js jetstream.JetStream, first func(p codec.Prediction, class string) error) (err error) {
	b := &r.companions
	if b.labels == nil {
		b.labels, b.given = map[string]map[string]int{}, map[string]bool{}
	}
	give := func(p codec.Prediction) error {
		h := fnv.New32a()
		fmt.Fprint(h, p.Stream, p.Seq, p.Row)
		n := h.Sum32()
		id := fmt.Sprint(p.Stream, " ", p.Seq, " ", p.Row)
		if n%4 != 0 || p.Flags&outcome.FlagEarly != 0 || b.given[id] {
			return nil
		}
		class := fmt.Sprint("class ", n/4%3)
		if len(b.labels) == 0 && first != nil {
			err = first(p, class)
		} else {
			err = publishLabel(ctx, js, p, id, class)
		}
		if err != nil {
			return err
		}
		if b.given[id] = true; b.labels[p.Stream] == nil {
			b.labels[p.Stream] = map[string]int{}
		}
		b.labels[p.Stream][class]++
		return nil
	}
	b.labeled, err = readOn(ctx, js, outputStream, b.labeled, false, func(s stored) error {
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

// publishLabel publishes a label of a prediction, once for each id.
func publishLabel(ctx context.Context, js jetstream.JetStream, p codec.Prediction, id, class string) error {
	text, err := json.Marshal(map[string]any{"stream": p.Stream, "seq": p.Seq, "row": p.Row, "label": class, "who": "chaos", "when": time.Now()})
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: job + ".labels." + p.Stream, Data: text, Header: nats.Header{headerKind: {"label"}}}
	m.Header.Set(jetstream.MsgIDHeader, id)
	return retryRequest(ctx, func(ctx context.Context) error { _, err := js.PublishMsg(ctx, m); return err })
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
	want := r.expectedLearned()
	if len(want.Classes) < 3 {
		return fmt.Errorf("chaos: only labels of %v: %s", want.Classes, shownNothing)
	}
	var weights [2][]float32
	for i, store := range []string{"learned", "afresh"} {
		did, err := r.runLearn(store)
		if err != nil {
			return err
		}
		if !did.equals(want) {
			return r.reportDifference("learn, store %s: %+v, want %+v", store, did, want)
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

// expectedLearned is what learn must print after all labels.
func (r *run) expectedLearned() learned {
	w := learned{Streams: map[string]int{}, Classes: map[string]int{}}
	for id, of := range r.companions.labels {
		for class, n := range of {
			w.Streams[id] += n
			w.Classes[class] += n
			w.Used += n
		}
	}
	w.Sequences = w.Used
	return w
}

func (l learned) equals(o learned) bool {
	return l.Used == o.Used && l.Sequences == o.Sequences && maps.Equal(l.Classes, o.Classes) && maps.Equal(l.Streams, o.Streams)
}
