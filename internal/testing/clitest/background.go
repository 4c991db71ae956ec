package clitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// background is a program that runs until stopped.
type background struct {
	cancel context.CancelFunc
	done   chan Result
	errOut LockedBuffer
	Out    io.Reader // standard output, as a pipe
}

// Messages returns the program's standard error output so far.
func (b *background) Messages() string { return b.errOut.String() }

// Start runs the program and returns when its messages contain text.
func Start(t *testing.T, text string, args ...string) *background {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	b := &background{cancel: cancel, done: make(chan Result, 1), Out: r}
	go func() {
		code := root.Run(ctx, args, w, &b.errOut)
		w.Close()
		b.done <- Result{Code: code, ErrOut: b.Messages()}
	}()
	t.Cleanup(func() { b.cancel(); r.Close() })
	for end := time.Now().Add(pipelinetest.Patience); time.Now().Before(end); {
		if strings.Contains(b.Messages(), text) {
			return b
		}
		select {
		case r := <-b.done:
			t.Fatalf("%v ended with code %d:\n%s", args, r.Code, r.ErrOut)
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("%v did not say %q within %v:\n%s", args, text, pipelinetest.Patience, b.Messages())
	return nil
}

// Stop interrupts the program and waits for its exit.
func (b *background) Stop(t *testing.T) Result {
	t.Helper()
	b.cancel()
	select {
	case r := <-b.done:
		return r
	case <-time.After(pipelinetest.Patience):
		t.Fatalf("did not stop within %v:\n%s", pipelinetest.Patience, b.Messages())
		return Result{}
	}
}

// Await returns when the stage has published at least the given number of
// predictions or, if predictions is 0, dead letters.
func Await(t *testing.T, url string, predictions, deadLetters int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	n := 0
	enough := errors.New("enough")
	err := withClient(url, func(js jetstream.JetStream) error {
		if predictions > 0 {
			return consumer.Predictions(ctx, js, "eusn", 1, func(o consumer.Output) error {
				if n += len(o.Predictions); n >= predictions {
					return enough
				}
				return nil
			})
		}
		return consumer.DeadLetters(ctx, js, "eusn", 1, func(consumer.DeadLetter) error {
			if n++; n >= deadLetters {
				return enough
			}
			return nil
		})
	})
	if err != enough {
		t.Fatalf("%d of %d predictions or %d dead letters after %v: %v", n, predictions, deadLetters, pipelinetest.Patience, err)
	}
}

// AwaitInput returns when the stage's input holds a message. Any goroutine may
// call it.
func AwaitInput(t *testing.T, url string) {
	t.Helper()
	err := withClient(url, func(js jetstream.JetStream) error {
		for end := time.Now().Add(pipelinetest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			s, err := js.Stream(t.Context(), "EUSN-IN")
			if err == nil && s.CachedInfo().State.Msgs > 0 {
				return nil
			}
		}
		return fmt.Errorf("no message in the input within %v", pipelinetest.Patience)
	})
	if err != nil {
		t.Error(err)
	}
}

// AwaitFile returns when the file exists.
func AwaitFile(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(pipelinetest.Patience); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// ServerURL finds the address of an embedded server in messages.
var ServerURL = regexp.MustCompile(`nats://127\.0\.0\.1:\d+`)

// LockedBuffer is a buffer that the stage may write while the test reads.
type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *LockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *LockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// OnServer calls do with a client of the server at url.
func OnServer(t *testing.T, url string, do func(js jetstream.JetStream) error) {
	t.Helper()
	if err := withClient(url, do); err != nil {
		t.Fatal(err)
	}
}

func withClient(url string, do func(js jetstream.JetStream) error) error {
	nc, err := natsclient.Connect(context.Background(), natsclient.Options{URL: url})
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return do(js)
}
