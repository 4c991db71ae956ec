package main

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
)

// What a running stage logs of its disk, and what doctor says of the job.
func TestDiskIsForetold(t *testing.T) {
	archive, dir := importTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "1", "--units", "5")
	stage := startProgram(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "2")
	url := serverURL.FindString(stage.messages())
	c, err := loadConfig("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.NATS.URL = url
	b, err := openBroker(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	done := make(chan bool)
	go func() {
		defer close(done)
		followDisk(ctx, slog.New(slog.NewTextHandler(&log, nil)), b, c, 300*time.Millisecond, 300*time.Millisecond)
	}()
	for !strings.Contains(log.String(), "in_gb=") { // the first line is of a job at rest
		time.Sleep(20 * time.Millisecond)
		if ctx.Err() != nil {
			t.Fatalf("nothing said of the disk:\n%s", log.String())
		}
	}
	must(t, "replay", "--archive", archive, "--nats-url", url)
	for !strings.Contains(log.String(), "in_gb_a_day=") || strings.Count(log.String(), "in_gb_a_day=0 ") == strings.Count(log.String(), "in_gb_a_day=") {
		time.Sleep(20 * time.Millisecond)
		if ctx.Err() != nil {
			t.Fatalf("nothing said of what was published:\n%s", log.String())
		}
	}
	stop()
	<-done
	for _, want := range []string{"nothing bounds EUSN-IN (input.max_age or input.max_bytes) and EUSN-OUT (output.keep)", "bounded: EUSN-DLQ by max_msgs 100000", "dlq_gb_a_day=0"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
	var found []finding
	must(t, "doctor", "--json", "--nats-url", url).parse(t, &found)
	if f := found[len(found)-1]; f.Subject != "disk" || f.Status != "note" || !strings.Contains(f.Sentence, "EUSN-IN holds") || !strings.Contains(f.Sentence, "nothing bounds EUSN-IN") {
		t.Errorf("doctor finds %+v", f)
	}
	for i := range 3 {
		publishJunk(t, url, i)
	}
	await(t, url, 0, 3)
	purgeFirst(t, url)
	r := must(t, "deadletter", "list", "--nats-url", url)
	r.want(t, exitOK, "note: 1 older dead letters are gone")
	if strings.Count(r.out, "\n") != 2 {
		t.Errorf("listed:\n%s", r.out)
	}
	stage.stop(t).want(t, exitOK, "3 dead letters")
}

// The words for each kind of growth.
func TestDiskWords(t *testing.T) {
	grows := func(perDay float64, most ...float64) (g pipeline.Growth) {
		for i, name := range []string{"EUSN-IN", "EUSN-OUT", "EUSN-DLQ"} {
			s := pipeline.StreamGrowth{Stream: name, Bytes: 1e9, PerDay: perDay, Most: most[i]}
			if !math.IsInf(s.Most, 1) {
				s.Bounds = []string{"max_bytes 7"}
			}
			g.Streams = append(g.Streams, s)
		}
		return g
	}
	ever := math.Inf(1)
	for _, c := range []struct {
		g     pipeline.Growth
		free  float64
		level string
		says  []string
		not   string
	}{
		{grows(1e9, ever, ever, 2e9), 9e9, "WARN", []string{"full_in_days=4.0", "nothing bounds EUSN-IN", "gb_a_day=3 ", "free_gb=9"}, "less room"},
		{grows(1e9, ever, 2e9, 2e9), 9e12, "INFO", []string{"full_in_days=8998.0", "bounded: EUSN-OUT by max_bytes 7; EUSN-DLQ"}, "EUSN-OUT (output"},
		{grows(1e9, 2e9, 2e9, 2e9), 9e9, "INFO", []string{"bounded: EUSN-IN"}, "full_in_days"},
		{grows(1e9, 9e9, 9e9, 9e9), 9e9, "WARN", []string{"but the disk has less room than that", "full_in_days=3.0"}, "nothing bounds"},
		{grows(0, ever, ever, ever), 9e9, "INFO", []string{"gb_a_day=0 "}, "full_in_days"},
		{grows(1e9, ever, ever, ever), math.NaN(), "INFO", []string{"free_of=\"the disk\""}, "free_gb"},
	} {
		var b bytes.Buffer
		logDisk(slog.New(slog.NewTextHandler(&b, nil)), c.g, diskRoom{c.free, "the disk"})
		for _, want := range append(c.says, "level="+c.level) {
			if !strings.Contains(b.String(), want) {
				t.Errorf("lacks %q: %s", want, b.String())
			}
		}
		if strings.Contains(b.String(), c.not) {
			t.Errorf("says %q: %s", c.not, b.String())
		}
	}
	c, err := loadConfig("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Server.Dir = filepath.Join(t.TempDir(), "a", "b")
	if f := plannedDisk(c); f.Status != "note" || !strings.Contains(f.Sentence, "the input (input.max_age or input.max_bytes), the predictions (output.keep)") || !strings.Contains(f.Sentence, "GB are free") {
		t.Errorf("%+v", f)
	}
	c.Input.MaxAge, c.Output.Keep = time.Hour, 5
	if f := plannedDisk(c); f.Status != "ok" {
		t.Errorf("%+v", f)
	}
	if f := averageDisk(grows(1e9, 2e9, 2e9, 2e9), diskRoom{9e9, "the disk"}); f.Status != "ok" || !strings.HasSuffix(f.Sentence, ".") {
		t.Errorf("%+v", f)
	}
}

// lockedBuffer is written by the stage while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func publishJunk(t *testing.T, url string, n int) {
	t.Helper()
	onServer(t, url, func(js jetstream.JetStream) error {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "sensors.junk", Data: []byte{byte(n)}})
		return err
	})
}

// purgeFirst drops the oldest dead letter, as the server does for newer ones.
func purgeFirst(t *testing.T, url string) {
	t.Helper()
	onServer(t, url, func(js jetstream.JetStream) error {
		s, err := js.Stream(t.Context(), "EUSN-DLQ")
		if err == nil {
			err = s.Purge(t.Context(), jetstream.WithPurgeSequence(2))
		}
		return err
	})
}

func onServer(t *testing.T, url string, do func(js jetstream.JetStream) error) {
	t.Helper()
	nc, err := natsclient.Connect(natsclient.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		err = do(js)
	}
	if err != nil {
		t.Fatal(err)
	}
}
