package loop_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// recorded returns all samples of a recording, file by file, and the number of files.
func recorded(t *testing.T, dir string) (all archive.RecordingChunk, files int) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		r, err := archive.ReadRecording(path)
		if err != nil {
			t.Fatal(err)
		}
		var c archive.RecordingChunk
		for {
			if err := r.Next(&c); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			all.Stream, all.Seq, all.Time = append(all.Stream, c.Stream...), append(all.Seq, c.Seq...), append(all.Time, c.Time...)
			all.Values, all.End = append(all.Values, c.Values...), append(all.End, c.End...)
			all.Origin.Message, all.Origin.Row = append(all.Origin.Message, c.Origin.Message...), append(all.Origin.Row, c.Origin.Row...)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all, len(paths)
}

// labeledTable returns recorded samples as a CSV recording with labels, and the labels
// separately: each sequence has one.
func labeledTable(c archive.RecordingChunk) (table, labels string) {
	var b, l strings.Builder
	b.WriteString("stream,time,end,label,c0,c1\n")
	l.WriteString("stream,from,to,label\n")
	for i, stream := range c.Stream {
		at, s := (c.Time[i]-1_700_000_000_000_000_000)/1_000_000, int64(stream[1]-'0')
		label := []string{"odd", "even"}[(at+s)/40%2]
		if at == 0 || (at+s)%40 == 0 {
			from := time.Unix(0, c.Time[i]).UTC()
			fmt.Fprintf(&l, "%s,%s,%d,%s\n", stream, from.Format(time.RFC3339Nano), from.UnixNano()+(40-(at+s)%40)*1_000_000, label)
		}
		fmt.Fprintf(&b, "%s,%d,%t,%s,%s,%s\n", stream, c.Time[i], c.End[i], label,
			strconv.FormatFloat(float64(c.Values[2*i]), 'g', -1, 32), strconv.FormatFloat(float64(c.Values[2*i+1]), 'g', -1, 32))
	}
	return b.String(), l.String()
}

// kills is how often the recorder is killed: more on demand.
func kills(t *testing.T) int {
	text := os.Getenv("EUSN_RECORD_KILLS")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The input of a stage under load, recorded by a process that is killed (kill -9)
// repeatedly: all samples of the log are there, each once, and the fingerprint equals
// an undisturbed recorder's. A model trained on the recording equals, bit for bit, the
// model of the same samples imported from CSV, and predicts like the live stage.
func TestRecord(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT CHECKED: killed programs take seconds, -short was given")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	model, table, archive, out := in("m.safetensors"), in("old.csv"), in("old.parquet"), in("recording")
	const streams, samples = 6, 6000
	clitest.Must(t, "train", clitest.ImportTiny(t, 2), "--output", model, "--members", "2", "--units", "8", "--drift")
	clitest.Write(t, table, strings.ReplaceAll(clitest.RecordingCSV(streams, samples), "m ", "m"))
	clitest.Must(t, "import", table, "--output", archive)
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: in("data"), Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	url := server.URL()
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--partitions", "3", "--nats-url", url)
	args := []string{"record", "--model", model, "--nats-url", url, "--output", out, "--progress", "none"}

	load := make(chan clitest.Result)
	go func() {
		load <- clitest.Exec(t, t.Context(), "replay", archive, "--nats-url", url, "--speed", "5")
	}()
	rng := rand.New(rand.NewPCG(1, 8))
	most := 0
	for kill := range kills(t) {
		cmd := planttest.Command(append(args, "--interval", "40ms")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Every second process has time to write a file, on any machine.
		for limit := time.Now().Add(10 * time.Second); kill%2 == 0 && time.Now().Before(limit) && parquets(out) <= most; {
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(400*time.Millisecond + time.Duration(rng.IntN(500))*time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		_, files := recorded(t, out)
		if files < most {
			t.Fatalf("kill %d: %d files, there were %d", kill, files, most)
		}
		most = files
	}
	if most < 3 {
		t.Errorf("%d files after all kills: the test has lost its subject", most)
	}
	clitest.Write(t, in("recording/.eusn-00000099.parquet.1.tmp"), "torn")
	(<-load).Want(t, cli.ExitOK)
	const want = streams * samples / 40
	clitest.Await(t, url, want, 0)

	type result struct {
		Files, Messages, Samples, Ends, Repeats, Unusable float64
		Fingerprint                                       string
	}
	var killed, calm result
	clitest.Must(t, append(args, "--until", "now", "--json")...).Parse(t, &killed)
	clitest.Must(t, "record", "--model", model, "--nats-url", url, "--output", in("calm"), "--until", "now", "--json").Parse(t, &calm)
	if killed.Files <= calm.Files || calm.Files != 1 || killed.Samples != streams*samples || killed.Ends != want || killed.Unusable != 0 {
		t.Errorf("killed %+v, calm %+v", killed, calm)
	}
	killed.Files = calm.Files
	if killed != calm {
		t.Errorf("killed %+v\n calm  %+v", killed, calm)
	}
	if _, err := os.Stat(in("recording/.eusn-00000099.parquet.1.tmp")); err == nil {
		t.Error("a file that was not complete is left")
	}
	sameAsTable(t, out, table, streams, samples)
	if r := clitest.Must(t, "record", "verify", out, "--model", model, "--nats-url", url); !strings.Contains(r.Out, "from eusn-00000001.parquet on, equal what the log has") || !strings.Contains(r.Out, calm.Fingerprint) {
		t.Errorf("verify says\n%s%s", r.Out, r.ErrOut)
	}
	// Without new samples, nothing is recorded twice.
	clitest.Must(t, append(args, "--until", "now", "--json")...).Parse(t, &killed)
	if killed.Samples != calm.Samples || killed.Fingerprint != calm.Fingerprint {
		t.Errorf("again: %+v", killed)
	}

	// Live = offline.
	live := clitest.Must(t, "tail", "--since", "1h", "--json", "--nats-url", url).Lines(t)
	if got, want := evaluated(t, model, out), livePredictions(live); !slices.Equal(got, want) {
		t.Errorf("%d predictions of the recording are not the %d live ones:\n%.300q\n%.300q", len(got), len(want), got, want)
	}
	all, _ := recorded(t, out)
	csv, labels := labeledTable(all)
	clitest.Must(t, "import", clitest.Write(t, in("labeled.csv"), csv), "--name", "eusn", "--output", in("labeled.parquet"))
	train := func(name string, from ...string) []byte {
		clitest.Must(t, append([]string{"train", "--output", in(name), "--members", "2", "--units", "8"}, from...)...)
		return clitest.Read(t, in(name))
	}
	file := clitest.Write(t, in("labels.csv"), labels)
	imported := train("a", in("labeled.parquet"))
	for name, from := range map[string][]string{
		"folder": {out, "--labels", file}, "pattern": {filepath.Join(out, "eusn-*.parquet"), "--labels", file},
		"one file": {filepath.Join(in("calm"), "eusn-00000001.parquet"), "--labels", file},
		"csv":      {in("labeled.parquet"), "--labels", file},
	} {
		if !bytes.Equal(train("b", from...), imported) {
			t.Errorf("%s: the model is not that of the imported samples", name)
		}
	}
	if r := clitest.Must(t, "evaluate", "--model", in("b"), out, "--labels", file); !strings.Contains(r.Out, fmt.Sprintf("of %d right", want)) {
		t.Errorf("evaluate says\n%s", r.Out)
	}
	stage.Stop(t).Want(t, cli.ExitOK, fmt.Sprint(want, " predictions committed"))
}

// evaluated are the predictions of a recording, as lines, sorted.
func evaluated(t *testing.T, model, dir string) (lines []string) {
	t.Helper()
	m, err := reservoir.Load(model)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	ev, err := offline.Evaluate(t.Context(), m, archive.RecordingFiles{Paths: paths}, offline.EvaluateOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ev.Predictions {
		lines = append(lines, fmt.Sprintf("%s %s %v %v %s %v %v %v", p.ID, ev.Classes[p.Class], p.Scores, p.Probability, p.Flags, p.Novelty, p.NoveltyP, p.Inputs))
	}
	slices.Sort(lines)
	return lines
}

// livePredictions returns lines of tail in the same form.
func livePredictions(all []map[string]any) (lines []string) {
	for _, l := range all {
		var scores, inputs []float32
		for _, v := range l["scores"].([]any) {
			scores = append(scores, float32(v.(float64)))
		}
		for _, v := range l["inputs"].([]any) {
			inputs = append(inputs, float32(v.(float64)))
		}
		probability, _ := l["probability"].(float64)
		flags, _ := l["flags"].(string)
		novelty, _ := l["novelty"].(float64)
		p, _ := l["novelty_p"].(float64)
		lines = append(lines, fmt.Sprintf("%s %s %v %v %s %v %v %v", l["stream"], l["class"], scores, float32(probability), flags, float32(novelty), float32(p), inputs))
	}
	slices.Sort(lines)
	return lines
}

// sameAsTable compares a recording with the published table.
func sameAsTable(t *testing.T, dir, table string, streams, samples int) {
	t.Helper()
	all, _ := recorded(t, dir)
	seen := make([]int, streams)
	lines := strings.Split(strings.TrimSpace(string(clitest.Read(t, table))), "\n")[1:]
	for i, stream := range all.Stream {
		n, err := strconv.Atoi(strings.TrimPrefix(stream, "m"))
		if err != nil || all.Seq[i] != int64(i)+1 {
			t.Fatalf("sample %d of stream %q has the number %d", i, stream, all.Seq[i])
		}
		f := strings.Split(lines[seen[n]*streams+n], ",")
		x, errX := strconv.ParseFloat(f[3], 32)
		y, errY := strconv.ParseFloat(f[4], 32)
		if err := errors.Join(errX, errY); err != nil {
			t.Fatal(err)
		}
		if f[0] != stream || f[1] != fmt.Sprint(all.Time[i]) || f[2] != fmt.Sprint(all.End[i]) || all.Values[2*i] != float32(x) || all.Values[2*i+1] != float32(y) || all.Origin.Message[i] == 0 {
			t.Fatalf("sample %d of %s is %v %v %v, want %v", seen[n], stream, all.Time[i], all.End[i], all.Values[2*i:2*i+2], f)
		}
		seen[n]++
	}
	for n, got := range seen {
		if got != samples {
			t.Errorf("stream %d has %d samples, want %d", n, got, samples)
		}
	}
}

// Every error has a sentence and a next step; and a recording continues after a damaged
// file was removed.
func TestRecordRefuses(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	model, wide, out := in("m.safetensors"), in("wide.safetensors"), in("out")
	clitest.Must(t, "train", archive, "--output", model, "--members", "1", "--units", "8")
	clitest.Must(t, "train", clitest.ImportTiny(t, 3), "--output", wide, "--members", "1", "--units", "8")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", in("data"), "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", archive, "--nats-url", url)
	clitest.Await(t, url, 24, 0)
	try := func(code int, says string, args ...string) {
		t.Helper()
		if args[0] != "verify" && !slices.Contains(args, "--output") {
			args = append(args, "--output", out)
		}
		if !slices.Contains(args, "--model") {
			args = append(args, "--model", model)
		}
		clitest.Exec(t, t.Context(), append([]string{"record", "--nats-url", url}, args...)...).Want(t, code, says, "try: ")
	}
	until := []string{"--until", "now"}
	try(cli.ExitUsage, "--max-size 0", "--max-size", "0")
	try(cli.ExitUsage, "--interval -1s", "--interval", "-1s")
	try(cli.ExitUsage, "is not after --since", "--since", "1h", "--until", "2h")
	try(cli.ExitUsage, "--lead-in is for", "--lead-in", "1h")
	try(cli.ExitUsage, `--stream ""`, "--stream", "")
	try(cli.ExitFailure, `no job "nosuch"`, append(until, "--job", "nosuch")...)
	try(cli.ExitFailure, "no message can be used", append(until, "--model", wide)...)
	clitest.Exec(t, t.Context(), "record", "verify", out, "--model", model, "--nats-url", url).Want(t, cli.ExitFailure, "no file of a recording")

	clitest.Must(t, "record", "--model", model, "--nats-url", url, "--output", out, "--until", "now")
	first := in("out/eusn-00000001.parquet")
	whole := clitest.Read(t, first)
	try(cli.ExitFailure, "another beginning", append(until, "--since", "1h")...)
	try(cli.ExitFailure, "another choice of streams", append(until, "--stream", "s*1")...)
	slow := clitest.Start(t, "continuing", "record", "--model", model, "--nats-url", url, "--output", out, "--progress", "none")
	try(cli.ExitFailure, "another program is writing it", until...)
	go io.Copy(io.Discard, slow.Out)
	slow.Stop(t).Want(t, cli.ExitOK)

	clitest.Write(t, first, string(whole[:len(whole)-1000]))
	try(cli.ExitIntegrity, "the newest file cannot be read", until...)
	clitest.Exec(t, t.Context(), "record", "verify", out, "--model", model, "--nats-url", url).Want(t, cli.ExitIntegrity)
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	clitest.Must(t, "record", "--model", model, "--nats-url", url, "--output", out, "--until", "now")
	clitest.Must(t, "record", "verify", out, "--model", model, "--nats-url", url)
	clitest.Must(t, "record", "verify", out, "--nats-url", url) // with the job's own model

	// Samples of one recording with the metadata of another.
	var some, other struct{ Samples float64 }
	clitest.Must(t, "record", "--model", model, "--nats-url", url, "--output", in("some"), "--until", "now", "--stream", "s0000*", "--stream", "s*1", "--json").Parse(t, &some)
	clitest.Must(t, "record", "--model", model, "--nats-url", url, "--output", in("none"), "--until", "now", "--stream", "other", "--json").Parse(t, &other)
	if some.Samples == 0 || other.Samples != 0 {
		t.Errorf("%v samples of some streams, %v of none", some.Samples, other.Samples)
	}
	clitest.Exec(t, t.Context(), "evaluate", "--model", model, filepath.Join(dir, "*", "eusn-*.parquet")).Want(t, cli.ExitIntegrity, "are of two recordings")
	// A data set takes no labels, and an invalid file of labels is refused with the
	// line.
	labels := clitest.Write(t, in("labels.csv"), "stream,from,to,label\ns1,2,1,x\n")
	clitest.Exec(t, t.Context(), "train", archive, "--labels", labels, "--output", in("x")).Want(t, cli.ExitUsage, "is a data set", "try: ")
	clitest.Exec(t, t.Context(), "train", out, "--labels", labels, "--output", in("x")).Want(t, cli.ExitIntegrity, "labels.csv:2: from 2 is not before to 1", "try: ")
	stage.Stop(t).Want(t, cli.ExitOK)
}

// parquets counts the files of a recording, also during writing.
func parquets(dir string) int {
	names, _ := filepath.Glob(filepath.Join(dir, "*.parquet"))
	return len(names)
}
