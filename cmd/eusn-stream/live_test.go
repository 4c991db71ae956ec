package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// smallDemo is a demo of a few seconds.
func smallDemo(dir string, more ...string) []string {
	return append([]string{"demo", "--dir", dir, "--train", "40", "--test", "40", "--members", "3", "--units", "10", "--streams", "15"}, more...)
}

func TestDemo(t *testing.T) {
	dir := t.TempDir()
	var r demoReport
	must(t, smallDemo(dir, "--json", "--quiet")...).parse(t, &r)
	if r.Series != 40 || r.Equal != 40 || r.Streams != 15 || r.LiveRows != 40*offline.DefaultMachineSamples {
		t.Errorf("demo --json gives %+v", r)
	}
	if left := leftovers(t, dir, "machine.parquet", "machine.safetensors"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	out := must(t, smallDemo(dir, "--dataset", filepath.Join(dir, "machine.parquet"), "--progress", "none")...).out
	if !strings.Contains(out, "40 of 40 predictions equal the offline evaluation") || !strings.Contains(out, "inner-race") {
		t.Errorf("demo says:\n%s", out)
	}
}

// What the README says that the demo ends with is what it ends with, on every
// engine.
func TestDemoAsInReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	out := strings.TrimSpace(must(t, "demo", "--dir", t.TempDir(), "--progress", "none").out)
	lines := strings.Split(out, "\n")
	for _, line := range lines[len(lines)-2:] {
		if !strings.Contains(string(readme), "\n    "+line+"\n") {
			t.Errorf("demo ends with %q, which the README does not say", line)
		}
	}
}

// The comparison must see a single bit, a wrong class, and a missing prediction.
func TestDemoComparison(t *testing.T) {
	want := []offline.Prediction{{ID: "test-0", Class: 1, Scores: []float32{0.5}}, {ID: "test-1", Class: 0, Scores: []float32{-0.5}}}
	live := func() []codec.Prediction {
		return []codec.Prediction{{Class: 1, Scores: []float32{0.5}}, {Class: 0, Scores: []float32{-0.5}}}
	}
	if d := compare(live(), want); len(d) != 0 {
		t.Fatalf("equal predictions differ: %v", d)
	}
	for name, change := range map[string]func(p []codec.Prediction){
		"bit":     func(p []codec.Prediction) { p[1].Scores[0] = math.Nextafter32(p[1].Scores[0], 1) },
		"class":   func(p []codec.Prediction) { p[1].Class = 1 },
		"missing": func(p []codec.Prediction) { p[1] = codec.Prediction{Class: -1} },
		"width":   func(p []codec.Prediction) { p[1].Scores = append(p[1].Scores, 0) },
	} {
		p := live()
		change(p)
		if d := compare(p, want); len(d) != 1 || !strings.HasPrefix(d[0], "test-1") {
			t.Errorf("%s: differences %v, want one of test-1", name, d)
		}
	}
	var a app
	var out, errOut bytes.Buffer
	a.stdout, a.stderr = &out, &errOut
	p := live()
	p[0].Scores[0] = 7
	ev := &offline.Evaluation{Classes: []string{"a", "b"}, Predictions: want}
	if code := a.report(a.demoResult(&liveResult{predictions: p, seconds: 1}, ev, time.Second)); code != exitIntegrity {
		t.Errorf("exit code %d of a demo with a difference, want %d", code, exitIntegrity)
	}
	if !strings.Contains(errOut.String(), "DIFFER") || !strings.Contains(out.String(), "1 of 2 predictions equal") {
		t.Errorf("a difference is not told loudly:\n%s%s", out.String(), errOut.String())
	}
}

// Ctrl-C at each step of the demo.
func TestDemoInterrupted(t *testing.T) {
	for _, c := range []struct {
		at   string
		kept []string
		says string
	}{
		{"1/5", nil, "nothing was kept"},
		{"2/5", []string{"machine.parquet"}, "machine.parquet"},
		{"3/5", []string{"machine.parquet", "machine.safetensors"}, "machine.safetensors"},
		{"4/5", []string{"machine.parquet", "machine.safetensors"}, "machine.safetensors"},
		{"5/5", []string{"machine.parquet", "machine.safetensors"}, "machine.safetensors"},
	} {
		t.Run(c.at[:1], func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errOut bytes.Buffer
			w := &stopAt{text: c.at, cancel: cancel, w: &errOut}
			code := run(ctx, smallDemo(dir), &out, w)
			result{code, out.String(), errOut.String()}.want(t, exitInterrupted, "interrupted:", c.says)
			if left := leftovers(t, dir); !slices.Equal(left, c.kept) {
				t.Errorf("in the directory: %v, want %v", left, c.kept)
			}
			for _, f := range c.kept {
				if strings.HasSuffix(f, ".parquet") {
					if _, err := offline.ReadArchive(filepath.Join(dir, f)); err != nil {
						t.Errorf("the kept archive is not whole: %v", err)
					}
				}
			}
		})
	}
}

// background is a program running until stopped.
type background struct {
	cancel context.CancelFunc
	done   chan result
	mu     sync.Mutex
	errOut bytes.Buffer
	out    io.Reader // standard output, as a pipe
}

func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errOut.Write(p)
}

func (b *background) messages() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errOut.String()
}

// startProgram runs the program until its messages hold text.
func startProgram(t *testing.T, text string, args ...string) *background {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	b := &background{cancel: cancel, done: make(chan result, 1), out: r}
	go func() {
		code := run(ctx, args, w, b)
		w.Close()
		b.done <- result{code: code, errOut: b.messages()}
	}()
	t.Cleanup(func() { b.cancel(); r.Close() })
	for range 200 {
		if strings.Contains(b.messages(), text) {
			return b
		}
		select {
		case r := <-b.done:
			t.Fatalf("%v ended with code %d:\n%s", args, r.code, r.errOut)
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("%v did not say %q within 10 s:\n%s", args, text, b.messages())
	return nil
}

func (b *background) stop(t *testing.T) result {
	t.Helper()
	b.cancel()
	select {
	case r := <-b.done:
		return r
	case <-time.After(20 * time.Second):
		t.Fatalf("did not stop within 20 s:\n%s", b.messages())
		return result{}
	}
}

// await returns when the stage has published so many predictions and dead
// letters.
func await(t *testing.T, url string, predictions, deadLetters int) {
	t.Helper()
	nc, err := pipeline.Connect(pipeline.NATSOptions{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n := 0
	enough := errors.New("enough")
	if predictions > 0 {
		err = pipeline.Predictions(ctx, js, "eusn", 1, func(o pipeline.Output) error {
			if n += len(o.Predictions); n >= predictions {
				return enough
			}
			return nil
		})
	} else {
		err = pipeline.DeadLetters(ctx, js, "eusn", 1, func(pipeline.DeadLetter) error {
			if n++; n >= deadLetters {
				return enough
			}
			return nil
		})
	}
	if err != enough {
		t.Fatalf("%d of %d predictions or %d dead letters after 10 s: %v", n, predictions, deadLetters, err)
	}
}

// awaitInput returns when the stage's input holds a message.
func awaitInput(t *testing.T, url string) {
	nc, err := pipeline.Connect(pipeline.NATSOptions{URL: url})
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Error(err)
		return
	}
	for range 500 {
		s, err := js.Stream(t.Context(), "EUSN-IN")
		if err == nil && s.CachedInfo().State.Msgs > 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("no message in the input within 10 s")
}

var serverURL = regexp.MustCompile(`nats://127\.0\.0\.1:\d+`)

// A stage and a replay as two programs, joined by TCP; then what goes wrong
// when a second one comes.
func TestRunAndReplay(t *testing.T) {
	archive, dir := importTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "2", "--units", "8")
	data := filepath.Join(dir, "data")
	stage := startProgram(t, "reading sensors.*", "run", "--json", "--model", model, "--dir", data, "--port", "-1", "--partitions", "4")
	url := serverURL.FindString(stage.messages())

	lines := make(chan predictionLine, 100)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(stage.out); in.Scan(); {
			var p predictionLine
			if err := json.Unmarshal(in.Bytes(), &p); err != nil {
				t.Errorf("run --json printed %q: %v", in.Text(), err)
			}
			lines <- p
		}
	}()
	var published struct{ Rows, Messages, Streams int }
	must(t, "replay", "--archive", archive, "--nats-url", url, "--streams", "5", "--rows", "16", "--json").parse(t, &published)
	if published.Rows != 24*40 || published.Streams != 5 || published.Messages != 24*3 {
		t.Errorf("replay --json gives %+v, want 24 series of 40 rows in 3 messages each", published)
	}
	for n := range 24 {
		select {
		case p := <-lines:
			if p.Class != "fast" && p.Class != "slow" || p.Row != 7 {
				t.Errorf("prediction %+v, want class fast or slow after row 7 of the last message", p)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%d of 24 predictions after 10 s:\n%s", n, stage.messages())
		}
	}
	r := must(t, "replay", "--archive", archive, "--nats-url", url, "--streams", "5", "--rows", "16", "--resume")
	if !strings.Contains(r.out, "72 messages were there already") {
		t.Errorf("replay --resume of all that is there says:\n%s", r.out)
	}
	must(t, "doctor", "--nats-url", url)

	port := url[strings.LastIndexByte(url, ':')+1:]
	exec(t, t.Context(), "run", "--model", model, "--dir", data, "--port", "0").want(t, exitFailure, "in use by process", data)
	exec(t, t.Context(), "run", "--model", model, "--dir", filepath.Join(dir, "other"), "--port", port).want(t, exitFailure, "address already in use", "try:")
	exec(t, t.Context(), "run", "--model", model, "--nats-url", url, "--partitions", "8").want(t, exitFailure, "partitions")
	exec(t, t.Context(), "replay", "--archive", "none.parquet", "--nats-url", url).want(t, exitFailure, "none.parquet")
	stage.stop(t).want(t, exitOK, "stopped: 72 messages and 960 rows taken, 24 predictions committed, 0 dead letters")
}

// Samples of two channels for a model of three: each message is a dead letter
// that says why, and nothing else stops.
func TestReplayWrongChannels(t *testing.T) {
	two, three, dir := importTiny(t, 2), importTiny(t, 3), t.TempDir()
	model := filepath.Join(dir, "m")
	must(t, "offline", "retrain", "--archive", three, "--out", model, "--members", "2", "--units", "5")
	stage := startProgram(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "2")
	url := serverURL.FindString(stage.messages())
	must(t, "replay", "--archive", two, "--nats-url", url, "--streams", "3")
	await(t, url, 0, 24)
	stage.stop(t).want(t, exitOK, "24 dead letters", "0 predictions")
}

// A recording keeps its own streams, ends and times.
func TestReplayRecording(t *testing.T) {
	archive, dir := importTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "2", "--units", "5")
	var csv strings.Builder
	csv.WriteString("stream,seq,c0,end\n")
	for k := range 30 {
		for _, s := range []string{"left", "right"} {
			fmt.Fprintf(&csv, "%s,%d,%.3f,%v\n", s, k, math.Sin(float64(k)), k%10 == 9)
		}
	}
	recording := filepath.Join(dir, "r.parquet")
	must(t, "offline", "import", "--csv", write(t, filepath.Join(dir, "r.csv"), csv.String()), "--out", recording)
	stage := startProgram(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "2")
	url := serverURL.FindString(stage.messages())
	exec(t, t.Context(), "replay", "--archive", recording, "--nats-url", url, "--speed", "1x").want(t, exitFailure, "rate")
	must(t, "replay", "--archive", recording, "--nats-url", url)
	await(t, url, 6, 0)
	stage.stop(t).want(t, exitOK, "60 rows taken, 6 predictions")
}

func TestReplayInterrupted(t *testing.T) {
	archive, dir := importTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "2", "--units", "5")
	stage := startProgram(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "2")
	url := serverURL.FindString(stage.messages())
	ctx, stop := context.WithCancel(t.Context())
	go func() { defer stop(); awaitInput(t, url) }() // the replay takes 4 s: it is stopped on the way
	r := exec(t, ctx, "replay", "--archive", archive, "--nats-url", url, "--speed", "1x", "--rate", "10", "--rows", "4", "--streams", "24")
	r.want(t, exitInterrupted, "interrupted:", "--resume")
	r = must(t, "replay", "--archive", archive, "--nats-url", url, "--rows", "4", "--streams", "24", "--resume")
	if !strings.Contains(r.out, "were there already") {
		t.Errorf("resuming says:\n%s", r.out)
	}
	await(t, url, 24, 0)
	stage.stop(t).want(t, exitOK, "960 rows taken, 24 predictions", "0 dead letters")
}

// A password in the URL must not come back in the messages.
func TestPasswordsAreNotTold(t *testing.T) {
	archive, model := importTiny(t, 1), filepath.Join(t.TempDir(), "m.safetensors")
	must(t, "offline", "retrain", "--archive", archive, "--members", "1", "--out", model)
	const url = "nats://someone:hunter2@127.0.0.1:1"
	const unreadable = "nats://someone:hunter2%zz@127.0.0.1:1" // a URL wants %25
	for _, args := range [][]string{
		{"run", "--model", model, "--nats-url", unreadable},
		{"doctor", "--nats-url", unreadable},
		{"run", "--model", model, "--nats-url", url},
		{"replay", "--archive", archive, "--nats-url", url},
		{"doctor", "--nats-url", url},
	} {
		r := exec(t, t.Context(), args...)
		r.want(t, exitUnreachable, "no connection")
		if strings.Contains(r.errOut+r.out, "hunter2") {
			t.Errorf("%s tells the password:\n%s%s", args[0], r.errOut, r.out)
		}
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://" + l.Addr().String()
	l.Close() // nothing listens there now
	archive, dir := importTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "2", "--units", "5")
	exec(t, t.Context(), "run", "--model", model, "--nats-url", url).want(t, exitUnreachable, url, "try: eusn-stream doctor")
	exec(t, t.Context(), "replay", "--archive", archive, "--nats-url", url).want(t, exitUnreachable, url, "try: eusn-stream doctor")
	exec(t, t.Context(), "run", "--model", filepath.Join(dir, "none")).want(t, exitFailure, "none", "try: eusn-stream offline retrain")
	exec(t, t.Context(), "run", "--model", model, "--non-finite", "ignore").want(t, exitConfig, "--non-finite", "reject, hold, zero")
}

// A directory nobody can write. Root can write everywhere, so a plain file
// stands in the way there.
func TestReadOnlyDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if os.Geteuid() == 0 {
		write(t, dir, "")
	} else if err := os.Mkdir(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(dir, "data")
	exec(t, t.Context(), "demo", "--dir", inside).want(t, exitFailure, dir, "try: eusn-stream demo --dir ANOTHER")
	archive := importTiny(t, 1)
	model := filepath.Join(t.TempDir(), "m")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "1", "--units", "5")
	exec(t, t.Context(), "run", "--model", model, "--dir", inside).want(t, exitFailure, inside, "try:")
	exec(t, t.Context(), "offline", "retrain", "--archive", archive, "--out", filepath.Join(dir, "m"), "--members", "1", "--units", "5").want(t, exitFailure, dir)
}
