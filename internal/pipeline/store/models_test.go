package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// ending is a context that ends after a number of calls.
type ending struct {
	context.Context
	asked int
}

func (e *ending) Err() error {
	if e.asked--; e.asked < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Chunks of an incomplete model are removed: immediately if the time ends during the
// upload, otherwise with the next model. Chunks of a current upload, and of models,
// stay.
func TestHalfModelsAreRemoved(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	m, err := OpenModels(t.Context(), js, "half", 1)
	if err != nil {
		t.Fatal(err)
	}
	pieces := func() (n int) {
		t.Helper()
		info, err := m.stream.Info(t.Context(), jetstream.WithSubjectFilter(m.chunkSubject("*")))
		if err != nil {
			t.Fatal(err)
		}
		for _, some := range info.State.Subjects {
			n += int(some)
		}
		return n
	}
	whole := bytes.Repeat([]byte("model"), bucketChunk)
	if err := m.Put(t.Context(), "whole", "about", whole); err != nil || pieces() != 5 {
		t.Fatalf("a model of five pieces: %v, %d pieces", err, pieces())
	}
	inTime, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = m.uploadModel(&ending{inTime, 3}, jetstream.ObjectMeta{Name: "late"}, whole)
	if !errors.Is(err, context.DeadlineExceeded) || pieces() != 5 {
		t.Errorf("a model that is not stored in time: %v, %d pieces, want those of the first", err, pieces())
	}
	if _, err := js.Publish(t.Context(), m.chunkSubject("killed"), []byte("piece")); err != nil {
		t.Fatal(err)
	}
	if err := m.Put(t.Context(), "small", "about", []byte("x")); err != nil || pieces() != 7 {
		t.Errorf("beside an upload that may be under way: %v, %d pieces, want 7", err, pieces())
	}
	m.old = 0
	if err := m.Put(t.Context(), "small", "about", []byte("y")); err != nil || pieces() != 6 {
		t.Errorf("after an upload that was killed: %v, %d pieces, want 6", err, pieces())
	}
	for name, want := range map[string]string{"whole": string(whole), "small": "y"} {
		if got, o, err := m.Get(t.Context(), name); err != nil || string(got) != want || o.About != "about" {
			t.Errorf("%s: %v, %d bytes, want %d", name, err, len(got), len(want))
		}
	}
	if _, err := m.FindModel(t.Context(), "late"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("the model that was not stored: %v", err)
	}
}

// A model that another worker republishes during a read is read: the old or the new
// content.
func TestModelIsStoredAnewMeanwhile(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	m, err := OpenModels(t.Context(), js, "anew", 1)
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("model"), bucketChunk)
	if err := m.Put(t.Context(), "model", "about", content); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		for range 8 {
			if err = m.Put(t.Context(), "model", "about", content); err != nil {
				break
			}
		}
		ended <- err
	}()
	for n := 0; ; n++ {
		if b, _, err := m.Get(t.Context(), "model"); err != nil || !bytes.Equal(b, content) {
			t.Fatalf("reading %d: %d bytes, %v", n, len(b), err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

// muteObjects is an object store whose server does not answer.
type muteObjects struct{ jetstream.ObjectStore }

func (muteObjects) Put(ctx context.Context, _ jetstream.ObjectMeta, _ io.Reader) (*jetstream.ObjectInfo, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestUploadDeadline expects the deadline as the reason of an upload without an answer: only
// the caller cancels an upload.
func TestUploadDeadline(t *testing.T) {
	for range 20 { // timers of equal time have no order
		synctest.Test(t, func(t *testing.T) {
			m := &Models{bucket: bucket{objects: muteObjects{}}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := m.uploadModel(ctx, jetstream.ObjectMeta{Name: "a"}, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an upload without an answer: %v, want %v", err, context.DeadlineExceeded)
			}
			ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
			time.AfterFunc(time.Second, cancel)
			begin := time.Now()
			if err := m.uploadModel(ctx, jetstream.ObjectMeta{Name: "a"}, nil); !errors.Is(err, context.Canceled) || time.Since(begin) != time.Second+CommitTimeout {
				t.Errorf("a canceled upload: %v after %v", err, time.Since(begin))
			}
		})
	}
}
