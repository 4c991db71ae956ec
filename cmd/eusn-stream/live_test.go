package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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
	exec(t, t.Context(), "partitions", "--dir", data).want(t, exitFailure, "in use by process", "try: eusn-stream partitions --nats-url")
	exec(t, t.Context(), "run", "--model", model, "--dir", filepath.Join(dir, "other"), "--port", port).want(t, exitFailure, "address already in use", "try:")
	exec(t, t.Context(), "run", "--model", model, "--nats-url", url, "--partitions", "8").want(t, exitFailure, "partitions")
	// Another network, and the same with another readout.
	for what, flag := range map[string]string{"network": "--seed", "readout": "--alpha"} {
		other := filepath.Join(dir, what)
		must(t, "offline", "retrain", "--archive", archive, "--out", other, "--members", "2", "--units", "8", flag, "77")
		exec(t, t.Context(), "run", "--model", other, "--nats-url", url, "--partitions", "4").want(t, exitOtherModel,
			"does not have this worker's "+what, "m.safetensors", "nothing was claimed", "try: --model")
	}
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
	listed := func(args ...string) []string {
		t.Helper()
		return strings.Split(strings.TrimSpace(must(t, append([]string{"deadletter", "list", "--nats-url", url}, args...)...).out), "\n")
	}
	all := listed("--reason", "schema", "--since", "1h", "--unsent")
	key := strings.Fields(all[0])[2]
	key = key[strings.LastIndexByte(key, '.')+1:]
	of := listed("--key", key)
	if len(all) != 24 || len(of) == 0 || len(of) == 24 || listed("--until", "1h")[0] != "" {
		t.Errorf("%d dead letters listed, %d of key %s:\n%s", len(all), len(of), key, all)
	}
	must(t, "deadletter", "replay", "--all", "--key", key, "--nats-url", url)
	await(t, url, 0, 24+len(of))
	if sent := listed("--key", key); len(sent) != 2*len(of) || !strings.Contains(sent[0], "[sent again ") || !strings.Contains(sent[len(of)], ", sent again)") {
		t.Errorf("after a replay of key %s:\n%s", key, strings.Join(sent, "\n"))
	}
	number := strings.Fields(of[0])[0]
	exec(t, t.Context(), "deadletter", "replay", number, "--nats-url", url).want(t, exitFailure, "dead letter "+number+" was sent again", "try: --again")
	exec(t, t.Context(), "deadletter", "replay", "99999", "--nats-url", url).want(t, exitFailure, "there is no dead letter 99999")
	exec(t, t.Context(), "deadletter", "replay", "--nats-url", url).want(t, exitUsage, "--all")
	exec(t, t.Context(), "deadletter", "list", "--since", "yesterday", "--nats-url", url).want(t, exitUsage, "--since \"yesterday\"")
	stage.stop(t).want(t, exitOK, fmt.Sprint(24+len(of), " dead letters"), "0 predictions")
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
