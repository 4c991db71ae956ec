package alarms_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// A process stopped (SIGSTOP) during another process's takeover writes no old values when it
// continues: the bucket keeps the newer values.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT CHECKED: programs take seconds to begin, -short was given")
	}
	const streams, rounds = 50, 2
	p := planttest.New(t, "")
	conf := clitest.Write(t, filepath.Join(p.Dir, "alarms.yaml"), "alarms:\n  rules:\n    fast: class fast\n")
	args := []string{"alarms", "run", "-c", conf, "--nats-url", p.URL, "--since", "1h"}
	c, err := client.Connect(t.Context(), client.Options{URL: p.URL, Channels: []string{"c0", "c1"}, Rows: planttest.Length, Latency: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	made := 0
	predict := func() {
		t.Helper()
		for i := range streams {
			item := client.Samples{Stream: fmt.Sprint("m", i), X: make([]float32, 2*planttest.Length)}
			for j := range item.X {
				item.X[j] = float32((made+i*j)%7) / 7
			}
			if err := c.Publish(t.Context(), item); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		made += streams
		p.Await("the predictions", func() bool { return p.CountPredictions("eusn") == made })
	}
	stale := func() (names []string) { // stale returns the streams whose last prediction is missing in the bucket.
		last := map[string]uint64{}
		for _, h := range readPredictions(p, made) {
			last[h.P.Stream] = h.Position
		}
		for name, position := range last {
			if got, err := latestOf(t, p, name); err != nil || got.Position != position {
				names = append(names, name)
			}
		}
		return names
	}
	var first *exec.Cmd
	for round := range rounds {
		var says bytes.Buffer
		first = planttest.Command(args...)
		first.Stderr = &says
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = first.Process.Kill() })
		signal := func(which string) {
			t.Helper()
			if err := exec.Command("kill", which, strconv.Itoa(first.Process.Pid)).Run(); err != nil {
				t.Fatal(err)
			}
		}
		predict()
		p.Await("the first process to write the bucket", func() bool { return len(stale()) == 0 })
		predict()
		signal("-STOP") // usually before it has written all of them
		if round == 0 {
			p.KeepProgram("alarms", args...)
		} else {
			p.Services["alarms"].Release()
		}
		p.Await("the second process to write the bucket", func() bool { return len(stale()) == 0 })
		predict()
		p.Await("the second process to write the bucket again", func() bool { return len(stale()) == 0 })
		signal("-CONT")
		exit := new(exec.ExitError)
		if err := first.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(says.String(), "another process now keeps the alarms") {
			t.Fatalf("the stopped process ends with %v, and says\n%s", err, says.String())
		}
		if names := stale(); len(names) > 0 {
			t.Errorf("the bucket has gone back for %d of %d streams: %v", len(names), streams, names)
		}
		p.Services["alarms"].Kill(true)
	}
}

// latestOf returns the bucket's entry of a stream.
func latestOf(t *testing.T, p *planttest.Plant, stream string) (l alarm.Latest, err error) {
	kv, err := p.JS.KeyValue(t.Context(), "EUSN-LATEST")
	if err != nil {
		return l, err
	}
	entry, err := kv.Get(t.Context(), alarm.Token(stream))
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(entry.Value(), &l)
}
