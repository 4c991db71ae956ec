package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

var policy = reservoir.Policy{Kind: reservoir.Marked, Early: 3}

// rig is a server with a job that a worker has begun with a model.
type rig struct {
	*testing.T
	js    jetstream.JetStream
	model *reservoir.Model
	*Models
}

func begunJob(t *testing.T, m *reservoir.Model) *rig {
	t.Helper()
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: wire.OutputStream("j"), Subjects: []string{"j.out.*"}}); err != nil {
		t.Fatal(err)
	}
	network, err := networkOf(m, "")
	if err != nil {
		t.Fatal(err)
	}
	e := wire.Entry{Identity: wire.Identity{Network: network, Readout: printOf(t, m)}, Worker: "w"}
	meta := codec.PredictionMeta{Model: "first.safetensors", Readout: "test", Labels: m.Readouts[0].Classes, Columns: m.Readouts[0].Columns()}
	enc, err := codec.NewPredictionEncoder(meta)
	if err != nil {
		t.Fatal(err)
	}
	body, err := enc.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: wire.EntrySubject("j"), Data: body, Header: nats.Header(e.Header())}); err != nil {
		t.Fatal(err)
	}
	r, err := Make(t.Context(), js, "j")
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, js, m, r}
}

func printOf(t *testing.T, m *reservoir.Model) string {
	t.Helper()
	print, err := Fingerprint(m, m.Readouts[0])
	if err != nil {
		t.Fatal(err)
	}
	return print
}

// anotherModel is a model of the same network with another readout.
func anotherModel(t *testing.T, k float32) *reservoir.Model {
	m := pipelinetest.Model(t, 3, policy)
	m.Readouts[0].Weights[0] += k
	return m
}

func (r *rig) publishModel(m *reservoir.Model, name string, l Lineage) (Entry, bool) {
	r.Helper()
	e, stored, err := r.Publish(r.Context(), m, name, "", l)
	if err != nil {
		r.Fatal(err)
	}
	return e, stored
}

// A published model is read back, bit for bit and with the lineage; republishing, also by
// many in parallel, changes nothing.
func TestPublish(t *testing.T) {
	r := begunJob(t, pipelinetest.Model(t, 3, policy))
	m := anotherModel(t, 1)
	m.Training = reservoir.Training{Dataset: "pumps", Alpha: "0.1, by leave-one-out of 12 (accuracy 0.9167)", Tool: "test 1"}
	l := Lineage{Who: "anna", When: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Command: "train", Note: "after the repair"}
	first, stored := r.publishModel(m, "pumps.safetensors", l)
	if !stored || first.Fingerprint != printOf(t, m) || first.Training.Dataset != "pumps" {
		t.Errorf("published %+v, %v", first, stored)
	}
	l2 := Lineage{Who: "bert", When: l.When.Add(time.Hour), Note: "again"}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if again, stored, err := r.Publish(t.Context(), m, "other.safetensors", "", l2); err != nil || stored || again.Who != "anna" || again.Model != "pumps.safetensors" {
				t.Errorf("again: %+v, %v, %v", again, stored, err)
			}
		})
	}
	wg.Wait()
	got, linear, e, err := r.Model(t.Context(), first.Fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := m.Encode()
	have, _ := got.Encode()
	if !bytes.Equal(have, want) || linear.Weights[0] != m.Readouts[0].Weights[0] {
		t.Error("the model is not the one that was published")
	}
	if e.Note != "after the repair" || !e.When.Equal(l.When) || e.Training.Alpha != m.Training.Alpha || e.Size != uint64(len(want)) || e.Usable() != nil {
		t.Errorf("entry %+v", e)
	}
	r.publishModel(anotherModel(t, 2), "two", Lineage{Who: "c", When: l.When.Add(-time.Hour), Parent: first.Fingerprint})
	all, err := r.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Model != "two" || all[0].Parent != first.Fingerprint || all[1].Fingerprint != first.Fingerprint {
		t.Errorf("list %+v, %v", all, err)
	}
	if print, err := r.Resolve(t.Context(), strings.ToUpper(first.Fingerprint[:5])); err != nil || print != first.Fingerprint {
		t.Errorf("%q, %v", print, err)
	}
	for _, prefix := range []string{"", "zz", first.Fingerprint + "0"} {
		if _, err := r.Resolve(t.Context(), prefix); !errors.Is(err, ErrNoEntry) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

// From a file with several readouts, the entry has the named readout.
func TestPublishNamedReadout(t *testing.T) {
	r := begunJob(t, pipelinetest.Model(t, 3, policy))
	m, second := anotherModel(t, 1), *anotherModel(t, 2).Readouts[0]
	second.Name = "second"
	m.Readouts = []*readout.Linear{m.Readouts[0], &second}
	e, _, err := r.Publish(t.Context(), m, "two.safetensors", "second", Lineage{Who: "a"})
	if err != nil || e.Readout != "second" {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, linear, _, err := r.Model(t.Context(), e.Fingerprint); err != nil || linear.Name != "second" || linear.Weights[0] != second.Weights[0] {
		t.Errorf("%+v, %v", linear, err)
	}
	_, _, err = r.Publish(t.Context(), m, "two.safetensors", "third", Lineage{Who: "a"})
	pipelinetest.Mentions(t, err, `no readout "third"`, "second")
}

// A model that does not fit the job's states is refused, and the error names the
// difference.
func TestOtherNetworkIsRefused(t *testing.T) {
	r := begunJob(t, pipelinetest.Model(t, 3, policy))
	if _, _, err := r.Publish(t.Context(), pipelinetest.Bank(t, 1, 8, 3, policy), "m", "", Lineage{Who: "a"}); !errors.Is(err, ErrOtherNetwork) {
		t.Errorf("without the job's own model: %v", err)
	}
	r.publishModel(r.model, "first.safetensors", Lineage{Who: "worker"})
	channels := pipelinetest.Model(t, 3, policy)
	channels.Channels = append([]string{"renamed"}, channels.Channels[1:]...)
	scaled := pipelinetest.Model(t, 3, policy)
	scaled.Network.Norm.Scale[0] *= 2
	for what, m := range map[string]*reservoir.Model{
		"seed (8, the job's":          pipelinetest.Bank(t, 1, 8, 3, policy),
		"members x units (2 x":        pipelinetest.Bank(t, 2, 7, 3, policy),
		"policy ({count":              pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: 9}),
		"channels ([renamed":          channels,
		"front end (":                 pipelinetest.Fronted(pipelinetest.Model(t, 3, policy)),
		"the scaling of the input":    scaled,
		`job "j", which runs first.s`: scaled,
	} {
		_, _, err := r.Publish(t.Context(), m, "m.safetensors", "", Lineage{Who: "a"})
		pipelinetest.Mentions(t, err, "m.safetensors", what)
		if !errors.Is(err, ErrOtherNetwork) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A worker that did not begin the job may have left this entry.
	other := pipelinetest.Bank(t, 1, 8, 3, policy)
	network, _ := networkOf(other, "")
	e, _, err := r.Add(t.Context(), other, other.Readouts[0], network, "left", Lineage{Who: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := r.Model(t.Context(), e.Fingerprint); !errors.Is(err, ErrOtherNetwork) {
		t.Errorf("an entry of another network: %v", err)
	}
}

// Any change of a published entry is refused with a sentence, and republishing the same
// model repairs the entry.
func TestDamagedEntries(t *testing.T) {
	r := begunJob(t, pipelinetest.Model(t, 3, policy))
	m, other := anotherModel(t, 1), anotherModel(t, 2)
	ctx := t.Context()
	print, otherPrint := printOf(t, m), printOf(t, other)
	bucket, err := r.js.ObjectStore(ctx, wire.ModelBucket("j"))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := r.js.Stream(ctx, wire.ModelStream("j"))
	if err != nil {
		t.Fatal(err)
	}
	metaSubject := "$O." + wire.ModelBucket("j") + ".M." + base64.URLEncoding.EncodeToString([]byte(print))
	// rewrite changes the server's data of the entry.
	rewrite := func(change func(info *jetstream.ObjectInfo)) error {
		info, err := bucket.GetInfo(ctx, print)
		if err != nil {
			return err
		}
		change(info)
		b, err := json.Marshal(info)
		if err != nil {
			return err
		}
		_, err = r.js.PublishMsg(ctx, &nats.Msg{Subject: metaSubject, Data: b, Header: nats.Header{"Nats-Rollup": {"sub"}}})
		return err
	}
	chunks := func() (string, *jetstream.ObjectInfo) {
		info, err := bucket.GetInfo(ctx, print)
		if err != nil {
			t.Fatal(err)
		}
		return "$O." + wire.ModelBucket("j") + ".C." + info.NUID, info
	}
	for what, damage := range map[string]func() error{
		"pieces gone": func() error {
			subject, _ := chunks()
			return stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
		},
		"a bit flipped": func() error {
			subject, _ := chunks()
			raw, err := stream.GetLastMsgForSubject(ctx, subject)
			if err != nil {
				return err
			}
			raw.Data[len(raw.Data)/2] ^= 1
			if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
				return err
			}
			_, err = r.js.Publish(ctx, subject, raw.Data)
			return err
		},
		"more pieces than its own": func() error {
			subject, _ := chunks()
			_, err := r.js.Publish(ctx, subject, []byte("more"))
			return err
		},
		"no JSON": func() error {
			_, err := r.js.PublishMsg(ctx, &nats.Msg{Subject: metaSubject, Data: []byte("{"), Header: nats.Header{"Nats-Rollup": {"sub"}}})
			return err
		},
		"nothing said about it": func() error {
			return rewrite(func(info *jetstream.ObjectInfo) { info.Metadata = nil })
		},
		"another version": func() error {
			return rewrite(func(info *jetstream.ObjectInfo) {
				info.Metadata["eusn-about"] = strings.Replace(info.Metadata["eusn-about"], `"version":1`, `"version":2`, 1)
			})
		},
		"a readout that it does not have": func() error {
			return rewrite(func(info *jetstream.ObjectInfo) {
				info.Metadata["eusn-about"] = strings.Replace(info.Metadata["eusn-about"], `"readout":"test"`, `"readout":"none"`, 1)
			})
		},
		"the content of another entry": func() error {
			info, err := bucket.GetInfo(ctx, otherPrint)
			if err != nil {
				return err
			}
			return rewrite(func(i *jetstream.ObjectInfo) {
				i.NUID, i.Digest, i.Size, i.Chunks = info.NUID, info.Digest, info.Size, info.Chunks
			})
		},
		"no model": func() error {
			_, info := chunks()
			_, err := bucket.Put(ctx, jetstream.ObjectMeta{Name: print, Metadata: info.Metadata}, strings.NewReader("hello"))
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			r.publishModel(other, "other", Lineage{Who: "a"})
			r.publishModel(m, "m", Lineage{Who: "anna", Note: "the first"})
			if _, _, _, err := r.Model(ctx, print); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			_, _, _, err := r.Model(ctx, print)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), print) {
				t.Errorf("damaged: %v", err)
			}
			if all, err := r.List(ctx); err != nil || len(all) != 2 {
				t.Errorf("the list has %d entries, %v", len(all), err)
			}
			if _, stored := r.publishModel(m, "m", Lineage{Who: "bert"}); !stored {
				t.Error("publishing again repaired nothing")
			}
			if _, linear, _, err := r.Model(ctx, print); err != nil || linear.Weights[0] != m.Readouts[0].Weights[0] {
				t.Errorf("after the repair: %v", err)
			}
		})
	}
}

// A retired entry can be read and does not predict; the active entry cannot be retired.
func TestRetire(t *testing.T) {
	r := begunJob(t, pipelinetest.Model(t, 3, policy))
	active, _ := r.publishModel(r.model, "first", Lineage{Who: "worker"})
	e, _ := r.publishModel(anotherModel(t, 1), "m", Lineage{Who: "anna"})
	at := time.Date(2026, 2, 1, 8, 0, 0, 0, time.UTC)
	if err := r.Retire(t.Context(), active.Fingerprint, Retirement{Who: "anna", When: at}); !errors.Is(err, ErrActive) {
		t.Errorf("the active entry: %v", err)
	}
	if err := r.Retire(t.Context(), strings.Repeat("0", 32), Retirement{Who: "anna", When: at}); !errors.Is(err, ErrNoEntry) {
		t.Errorf("no entry: %v", err)
	}
	if err := r.Retire(t.Context(), e.Fingerprint, Retirement{Who: "a\nb", When: at}); err == nil {
		t.Error("retired by a name with a line end")
	}
	for range 2 {
		if err := r.Retire(t.Context(), e.Fingerprint, Retirement{Who: "anna", When: at, Note: "wrong labels"}); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Hour)
	}
	_, _, got, err := r.Model(t.Context(), e.Fingerprint)
	if err != nil || got.Retired == nil || got.Retired.Note != "wrong labels" || got.Retired.When.Hour() != 8 {
		t.Fatalf("%+v, %v", got, err)
	}
	err = got.Usable()
	pipelinetest.Mentions(t, err, e.Fingerprint, "anna", "wrong labels", "2026-02-01T08:00:00Z")
	if !errors.Is(err, ErrRetired) {
		t.Error(err)
	}
	if again, stored := r.publishModel(anotherModel(t, 1), "m", Lineage{Who: "anna"}); stored || again.Retired == nil {
		t.Errorf("published again: %+v, %v", again, stored)
	}
	if all, err := r.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("%d entries, %v", len(all), err)
	}
}

// A missing job has no registry, and reading creates none.
func TestOpenMakesNothing(t *testing.T) {
	r := begunJob(t, pipelinetest.Model(t, 3, policy))
	if _, err := Make(t.Context(), r.js, "nobody"); !errors.Is(err, wire.ErrNoJob) {
		t.Error(err)
	}
	if _, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OLD-OUT", Subjects: []string{"old.out.*"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), r.js, "old"); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	if _, err := r.js.Stream(t.Context(), wire.ModelStream("old")); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a look made the registry: %v", err)
	}
	old, err := Make(t.Context(), r.js, "old")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = old.Publish(context.Background(), anotherModel(t, 1), "m", "", Lineage{Who: "a"})
	pipelinetest.Mentions(t, err, `job "old" has no model yet`)
}

// The identity of a job that reads Arrow is the fingerprint, as in jobs of programs
// without a registry. Another input format gives another identity.
func TestIdentity(t *testing.T) {
	m := pipelinetest.Model(t, 3, policy)
	print := printOf(t, m)
	if Identity(print, "") != print || Identity(print, "json") == print || len(Identity(print, "json")) != 32 {
		t.Errorf("%s: %s, %s", print, Identity(print, ""), Identity(print, "json"))
	}
	described := pipelinetest.Model(t, 3, policy)
	described.Training.Dataset, described.Training.Tool = "pumps", "test 1"
	described.Readouts = append(described.Readouts, anotherModel(t, 1).Readouts...)
	described.Readouts[1].Name = "second"
	if got := printOf(t, described); got != print {
		t.Error("what does not change a prediction changes the fingerprint")
	}
	for what, change := range map[string]func(*reservoir.Model){
		"weights":     func(m *reservoir.Model) { m.Readouts[0].Weights[0]++ },
		"classes":     func(m *reservoir.Model) { m.Readouts[0].Classes = []string{"x", "y", "z"} },
		"temperature": func(m *reservoir.Model) { m.Readouts[0].Temperature = 2 },
		"limits": func(m *reservoir.Model) {
			for range m.Readouts[0].Features() {
				m.Readouts[0].Limit = append(m.Readouts[0].Limit, 3)
			}
		},
		"ranges": func(m *reservoir.Model) {
			m.Training.Inputs = pipelinetest.Ranged(pipelinetest.Model(t, 3, policy)).Training.Inputs
		},
	} {
		m := pipelinetest.Model(t, 3, policy)
		change(m)
		if printOf(t, m) == print {
			t.Errorf("other %s have the same fingerprint", what)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add(`{"version":1,"network":"00112233445566778899aabbccddeeff","readout":"r","classes":["a"],"model":"m","sha256":"` + strings.Repeat("0", 64) + `","training":{},"who":"a","when":"2026-02-01T08:00:00Z"}`)
	f.Add(`{"version":2}`)
	f.Add(`{} {}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseEntry(strings.Repeat("0", 32), text)
		if err != nil {
			return
		}
		again, err := e.marshalEntry()
		if err != nil {
			t.Fatalf("%q was read, but cannot be written: %v", text, err)
		}
		if _, err := parseEntry(e.Fingerprint, again); err != nil {
			t.Fatalf("%q, written again as %q: %v", text, again, err)
		}
	})
}
