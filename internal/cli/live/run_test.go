package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/page"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The live page connects before a stage is ready, even after a failed first attempt,
// and disconnects at the end.
func TestPageAttaches(t *testing.T) {
	nc, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	live := page.Start(page.Options{Counters: new(pipeline.Counters), Job: "eusn"})
	defer live.Close()
	look := func() int {
		w := httptest.NewRecorder()
		live.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page/stream?name=pump", nil))
		return w.Code
	}
	if code := look(); code != http.StatusServiceUnavailable {
		t.Errorf("a look-up without a connection: %d", code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tries, over := 0, make(chan struct{})
	go func() {
		defer close(over)
		attach(ctx, live, func(context.Context, string) (*nats.Conn, jetstream.JetStream, error) {
			if tries++; tries == 1 {
				return nil, nil, errors.New("no server yet")
			}
			return nc, js, nil
		}, "eusn", time.Millisecond, slog.New(slog.DiscardHandler))
	}()
	for end := time.Now().Add(pipelinetest.Patience); look() == http.StatusServiceUnavailable; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the page gets no connection")
		}
	}
	cancel()
	<-over
	if code := look(); code != http.StatusServiceUnavailable || !nc.IsClosed() {
		t.Errorf("after the end: a look-up %d, connection closed %v", code, nc.IsClosed())
	}
}

// TestStopWithoutCommitIsAFailure: a stage that could not commit its last batch did not
// stop well, and must not report that nothing was published.
func TestStopWithoutCommitIsAFailure(t *testing.T) {
	var errOut bytes.Buffer
	a := &cli.App{Stderr: &errOut}
	code := a.Report(stopFailure(fmt.Errorf("commit on eusn.out.3: %w", context.Canceled), 10*time.Second))
	for _, part := range []string{"could not be committed within 10s", "eusn.out.3", "try:"} {
		if code != cli.ExitFailure || !strings.Contains(errOut.String(), part) {
			t.Errorf("code %d, messages lack %q:\n%s", code, part, errOut.String())
		}
	}
	other := errors.New("other")
	if got := stopFailure(other, time.Second); got != other {
		t.Errorf("another error became %v", got)
	}
}

// A rule that never raises an alarm is reported before the stage starts.
func TestRunWarnsOfRules(t *testing.T) {
	c, err := config.Load("", []byte("model: m.safetensors\nalarms: {rules: {odd: class novell, flat: flag flat}}\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	if _, err := newCompanions(&cli.App{Stderr: &errOut}, c, pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"novell\" is not one of [`, "eusn-stream model show m.safetensors"} {
		if strings.Count(errOut.String(), part) != 1 || strings.Contains(errOut.String(), "flat") {
			t.Errorf("want one line, with %q:\n%s", part, errOut.String())
		}
	}
}

func TestParseSpeed(t *testing.T) {
	for s, want := range map[string]float64{"max": 0, "1x": 1, "10x": 10, "2.5": 2.5} {
		if v, err := ParseSpeed(s); err != nil || v != want {
			t.Errorf("speed %s is %v, %v; want %v", s, v, err, want)
		}
	}
	for _, s := range []string{"", "x", "0x", "-1x", "fast", "NaNx"} {
		if _, err := ParseSpeed(s); err == nil {
			t.Errorf("speed %q is taken", s)
		}
	}
}
