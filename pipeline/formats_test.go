package pipeline_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Jobs in the stored forms of version 1, as left by a killed program: testdata/jobs
// holds each job's server directory, with all input already stored, the model, and the
// predictions and the final state of an undisturbed run. See CONTRIBUTING, "When a
// format changes".
var writeFormats = flag.Bool("write-formats", false, "write the files of testdata/jobs that are not there")

// storedJob is a job in testdata/jobs.
type storedJob struct {
	file   string
	policy reservoir.Policy
	config func(*pipeline.Config)
}

// The models have ranges and a temperature; all except plain-1's have a sampling rate,
// and the model of window-front-1 has a front end.
var storedJobs = []storedJob{
	{"plain-1", reservoir.Policy{Kind: reservoir.Marked, Early: 6}, func(c *pipeline.Config) { c.MaxSlots, c.NonFinite = 2, codec.Hold }},
	{"marked-1", reservoir.Policy{Kind: reservoir.Marked, Early: 6}, func(c *pipeline.Config) { c.MaxSlots, c.NonFinite = 2, codec.Hold }},
	{"window-front-1", reservoir.Policy{Kind: reservoir.Window, Length: 12, Hop: 4}, func(c *pipeline.Config) { c.MaxSlots = 5 }},
}

func (j storedJob) configOf() pipeline.Config {
	c := quickConfig("yesterday", 2)
	j.config(&c)
	return c
}

// ending is the final state of an undisturbed run of a stored job.
type ending struct {
	Predictions map[string][]codec.Prediction `json:"predictions"`  // of each stream, in order
	DeadLetters []string                      `json:"dead_letters"` // subject and reason, in order
	Digests     []string                      `json:"digests"`      // of the partitions' final states
}

func (b *rig) readEnding(c pipeline.Config) (e ending) {
	b.t.Helper()
	e.Predictions = b.readPredictions(c.Job)
	for _, d := range b.deadLetters(c.Job) {
		e.DeadLetters = append(e.DeadLetters, d.Subject+": "+d.Reason)
	}
	slices.Sort(e.DeadLetters)
	e.Digests = b.finalDigests(c.Job, c.Partitions)
	return e
}

// TestStoredJobsGoOn continues the stored jobs with the current program: position,
// digest, snapshot, rows, held messages and end events are read, and the job continues
// with the same bits. A change of a stored form fails here.
func TestStoredJobsGoOn(t *testing.T) {
	for _, j := range storedJobs {
		t.Run(j.file, func(t *testing.T) {
			path := filepath.Join("testdata", "jobs", j.file+".tar.gz")
			if _, err := os.Stat(path); *writeFormats && os.IsNotExist(err) {
				j.writeFile(t, path)
			}
			dir := t.TempDir()
			unpackFolder(t, path, dir)
			m, err := reservoir.Load(filepath.Join(dir, "model.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "ending.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want ending
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			c := j.configOf()
			b := newRigAt(t, filepath.Join(dir, "server"))
			b.writtenAlike(c, m)
			before, answered := b.readPredictions(c.Job), b.countRestored(c)
			if n := count(before); n == 0 || n == count(want.Predictions) || answered == 0 {
				t.Fatalf("%d of %d predictions, %d messages in snapshots: the file has lost its subject", n, count(want.Predictions), answered)
			}
			c.StopTimeout = patience
			r := b.startStage(m, c)
			s := r.waitUntil(t, "all input", func(s pipeline.Stats) bool {
				return s.Lag == 0 && count(b.readPredictions(c.Job)) >= count(want.Predictions)
			})
			r.stopStage(t)
			if s.Restores != uint64(c.Partitions) || s.Replayed == 0 || s.Fetched == 0 {
				t.Errorf("%d restores, %d messages replayed, %d rows read back: the file has lost its subject", s.Restores, s.Replayed, s.Fetched)
			}
			got := b.readEnding(c)
			if !reflect.DeepEqual(got, want) {
				same(t, got.Predictions, want.Predictions)
				t.Errorf("ends with %v and %v,\nwant %v and %v", got.DeadLetters, got.Digests, want.DeadLetters, want.Digests)
			}
		})
	}
}

// writtenAlike compares stored data with the current program's encoding.
func (b *rig) writtenAlike(c pipeline.Config, m *reservoir.Model) {
	t := b.t
	t.Helper()
	js, ctx := b.js, t.Context()
	c = c.WithDefaults()
	sh, err := state.ShapeOf(m, "")
	if err != nil {
		t.Fatal(err)
	}
	store, err := js.ObjectStore(ctx, wire.SnapshotBucket(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	held, away, here := 0, 0, 0
	for p := range c.Partitions {
		raw, r := b.lastRecord(c.Job, p)
		for name := range raw.Header {
			if strings.HasPrefix(name, "Nats-") {
				delete(raw.Header, name) // the condition of the publish
			}
		}
		if got := r.Header(); !reflect.DeepEqual(map[string][]string(got), map[string][]string(raw.Header)) {
			t.Errorf("partition %d: today's record has the headers\n%v, the stored one\n%v", p, got, raw.Header)
		}
		snap, err := store.GetBytes(ctx, r.Snap)
		if err != nil {
			t.Fatal(err)
		}
		part, err := state.Decode(snap, sh, p)
		if err != nil {
			t.Fatal(err)
		}
		away += part.Away
		for _, src := range part.Sources {
			held += len(src.Held)
			for _, st := range src.Streams {
				for _, row := range st.Rows {
					if row != nil {
						here++
					}
				}
			}
		}
		if again, err := part.Encode(sh, state.DecodedRows{}); err != nil || !bytes.Equal(again, snap) {
			t.Errorf("partition %d: today's snapshot of the same state is another one (%v)", p, err)
		}
	}
	if held == 0 || away == 0 || here == 0 {
		t.Errorf("%d messages held, %d rows apart, %d rows in snapshots: the file has lost its subject", held, away, here)
	}
	b.encodedAlike(c.Job)
}

// encodedAlike compares stored predictions with the current program's encoding.
func (b *rig) encodedAlike(job string) {
	out, err := b.js.Stream(b.t.Context(), wire.OutputStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	for seq := uint64(1); seq <= out.CachedInfo().State.LastSeq; seq++ {
		msg, err := out.GetMsg(b.t.Context(), seq)
		if err != nil {
			b.t.Fatal(err)
		}
		meta, ps, err := codec.DecodePredictions(msg.Data)
		if err != nil {
			b.t.Fatal(err)
		}
		enc, err := codec.NewPredictionEncoder(meta)
		if err != nil {
			b.t.Fatal(err)
		}
		if again, err := enc.Encode(ps); err != nil || !bytes.Equal(again, msg.Data) {
			b.t.Errorf("output message %d: today's form of its predictions is another one (%v)", seq, err)
		}
	}
}

// writeFile makes a stored job with today's program.
func (j storedJob) writeFile(t *testing.T, path string) {
	m := pipelinetest.Ranged(pipelinetest.Model(t, 3, j.policy))
	if j.file != "plain-1" {
		m = pipelinetest.Timed(m)
	}
	if strings.Contains(j.file, "front") {
		m = pipelinetest.Fronted(m)
	}
	c := j.configOf()
	packets, half := j.inputPackets(t, c)

	calm := newRig(t)
	calm.startUp(c)
	calm.publishPackets(packets)
	quiet := c
	quiet.StopTimeout = patience
	r := calm.startStage(m, quiet)
	r.readAll(t)
	r.stopStage(t)
	text, err := json.MarshalIndent(calm.readEnding(c), "", "\t")
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ending.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.Save(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	b := newRigAt(t, filepath.Join(dir, "server"))
	b.startUp(c)
	r = b.startStage(m, c)
	for i, p := range packets[:half] {
		b.publishPackets([]pipelinetest.Packet{p})
		if i%5 == 4 {
			r.readAll(t) // so that snapshots are taken, and rows leave
		}
	}
	r.readAll(t)
	r.crashStage(t)
	b.publishPackets(packets[half:])
	b.nc.Close()
	b.srv.Close()
	packFolder(t, dir, path)
}

// readAll waits until the stage has answered all input.
func (r *running) readAll(t *testing.T) {
	t.Helper()
	time.Sleep(30 * time.Millisecond)
	r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
}

// startUp makes the job's NATS streams.
func (b *rig) startUp(c pipeline.Config) {
	b.t.Helper()
	if err := store.EnsureStreams(b.t.Context(), b.js, c.WithDefaults().Layout(), b.log); err != nil {
		b.t.Fatal(err)
	}
}

// inputPackets has early and repeated messages, missing samples, headers, end events and an
// unreadable message. half is where the program that writes the file is killed:
// messages are held there for missing messages.
func (j storedJob) inputPackets(t *testing.T, c pipeline.Config) (packets []pipelinetest.Packet, half int) {
	streams := pipelinetest.Recordings(12, 28)
	for i := range streams {
		streams[i].Name = fmt.Sprintf("machine-%d", i)
		if c.NonFinite == codec.Hold && i < 3 {
			streams[i].X[20] = pipelinetest.NaN
		}
	}
	packets, _ = pipelinetest.Mixed(streams, 5)
	packets = pipelinetest.Disorder(packets, rand.New(rand.NewPCG(1, 9)))
	for i := range packets {
		packets[i].Header = map[string]string{wire.HeaderIncarnation: "boot-1", "X-Site": "north"}
	}
	half = len(packets) / 2
	waiting := packets[half]
	waiting.Key, waiting.Seq = "machine-6", 1<<20 // waits for ever
	packets[half-1] = waiting
	bad := pipelinetest.Packet{Key: "machine-1", Raw: []byte("no Arrow"), Header: map[string]string{"X-Site": "south"}}
	packets = slices.Insert(packets, half/2, bad)
	half++
	for p := range c.Partitions { // an end event for each partition, for streams silent since its first messages
		e := wire.IdleEvent{Partition: p, After: uint64(half / 3)}
		for _, r := range streams {
			if wire.PartitionOf(r.Name, c.Partitions) == p {
				e.Streams = append(e.Streams, wire.StreamName{Key: r.Name, Stream: r.Name})
			}
		}
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, pipelinetest.Packet{Key: wire.IdleKey(p, c.Partitions), Raw: data, Header: map[string]string{wire.HeaderKind: wire.KindIdle}})
	}
	return packets, half
}

// packFolder writes a directory as a compressed archive.
func packFolder(t *testing.T, dir, path string) {
	t.Helper()
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(rel), Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	for _, f := range []func() error{w.Close, z.Close} {
		if err == nil {
			err = f()
		}
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, buf.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s written: %d bytes", path, buf.Len())
}

func unpackFolder(t *testing.T, path, dir string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(path, err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatal(path, h, err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(name, data, 0o644)
		}
		if err != nil {
			t.Fatal(path, err)
		}
	}
}
