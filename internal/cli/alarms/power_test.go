package alarms_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// The server loses its power, and so the end of the job's output: it starts with older files of
// the output. The stage repeats the lost predictions, and the alarm process continues without a
// restart: each alarm is raised and cleared once, by the predictions that an oracle expects.
func TestPowerFailureOfThePlant(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT CHECKED: programs take seconds to begin, -short was given")
	}
	const streams = 40
	p := planttest.New(t, "")
	rules := []alarmtest.Rule{
		{Name: "one", Classes: []string{"fast"}, K: 1, N: 1, ClearAfter: 1},
		{Name: "some", Classes: []string{"fast"}, K: 2, N: 3, ClearAfter: 2},
	}
	texts := "alarms:\n  rules:\n"
	for _, w := range rules {
		texts += fmt.Sprintf("    %s: '%s'\n", w.Name, w.FormatRule())
	}
	conf := clitest.Write(t, filepath.Join(p.Dir, "alarms.yaml"), texts)
	p.KeepProgram("alarms", "alarms", "run", "-c", conf, "--nats-url", p.URL, "--since", "1h", "--save", "500ms")
	c, err := client.Connect(t.Context(), client.Options{URL: p.URL, Channels: []string{"c0", "c1"}, Rows: planttest.Length, Latency: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	rng, made := rand.New(rand.NewPCG(5, 5)), 0
	predict := func(rounds int) {
		t.Helper()
		for i := range rounds * streams {
			item := client.Samples{Stream: fmt.Sprint("m", i%streams)}
			step := .1 + .9*rng.Float64()
			for j := range planttest.Length {
				item.X = append(item.X, float32(math.Sin(step*float64(j))), float32(math.Cos(step*float64(j))))
			}
			if err := c.Publish(t.Context(), item); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		made += rounds * streams
		p.Await("the predictions", func() bool { return p.CountPredictions("eusn") == made })
	}
	all := func() {
		t.Helper()
		past := readPredictions(p, made)
		last := past[len(past)-1].Position
		p.Await("all predictions to be judged", func() bool { return lastJudged(p, "eusn") >= last })
	}
	output, cut := filepath.Join(p.Dir, "nats", "jetstream", "$G", "streams", "EUSN-OUT"), filepath.Join(t.TempDir(), "output")
	dark := func(change func() error) { // the server is off during change
		t.Helper()
		p.Services["nats"].Kill(true)
		p.Await("the server to be away", func() bool {
			conn, err := net.Dial("tcp", "127.0.0.1:"+p.Port)
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
		if err := change(); err != nil {
			t.Fatal(err)
		}
		p.Services["nats"].Release()
		p.AwaitPort(p.Port)
	}
	predict(2)
	all()
	dark(func() error { return os.CopyFS(cut, os.DirFS(output)) })
	predict(5)
	all()
	dark(func() error {
		p.Services["stage"].Kill(false)
		if err := os.RemoveAll(output); err != nil {
			return err
		}
		return os.CopyFS(output, os.DirFS(cut))
	})
	p.Await("the lost predictions to be made again", func() bool { return p.CountPredictions("eusn") == made })
	predict(3)
	all()
	events := map[string]string{}
	said := 0
	if err := watch.ReadEvents(t.Context(), p.JS, "eusn", time.Unix(1, 0), false, func(e alarm.Event) error {
		switch {
		case e.Kind != alarm.RulesChanged:
			events[e.Rule+" "+e.Key] += e.Kind + " "
		case strings.Contains(e.Why, "went back in time"):
			said++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, e := range alarmtest.ExpectEvents(rules, readPredictions(p, made)) {
		want[e.Rule+" "+e.Key] += e.Kind + " "
	}
	if len(want) < streams {
		t.Errorf("only %d alarms have events", len(want))
	}
	for key := range want {
		if events[key] != want[key] {
			t.Errorf("%s: %s, want %s", key, events[key], want[key])
		}
	}
	if len(events) != len(want) || said != 1 {
		t.Errorf("%d alarms, want %d; the log says %d times that the output went back", len(events), len(want), said)
	}
}
