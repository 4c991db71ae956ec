package loop_test

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const (
	learnStreams, learnSequences, learnLength = 6, 20, 40
	learnBegin                                = 1_700_000_000_000_000_000
	learnStep                                 = int64(1_000_000) // ns
)

// learnClass is the class of a sequence; learnLabeled reports whether the sequence has
// a label: 30 %.
func learnClass(stream, k int) string { return []string{"fast", "slow", "odd"}[(stream+k/5)%3] }

func learnLabeled(stream, k int) bool { return (stream*7+k)%10 < 3 }

// labeledCSV is a recording of streams of sequences, one stream after the other, with
// the labels that learn gets later.
func labeledCSV() string { return labeledCSVOf(learnClass, learnLabeled) }

func labeledCSVOf(class func(stream, k int) string, labeled func(stream, k int) bool) string {
	var b strings.Builder
	b.WriteString("stream,time,end,c0,c1,label\n")
	for s := range learnStreams {
		for i := range learnSequences * learnLength {
			k, label := i/learnLength, ""
			if labeled(s, k) {
				label = class(s, k)
			}
			step := map[string]float64{"fast": .6, "slow": .2, "odd": 1.3}[class(s, k)]
			x := step*float64(i) + float64(s)
			fmt.Fprintf(&b, "m%d,%d,%t,%.6f,%.6f,%s\n", s, learnBegin+int64(i)*learnStep, i%learnLength == learnLength-1, math.Sin(x), math.Cos(x), label)
		}
	}
	return b.String()
}

// learnJob is a job that has predicted a recording.
type learnJob struct {
	dir, url, model string
	server          *natsserver.Server
	predictions     []map[string]any
}

func (j *learnJob) in(name string) string { return filepath.Join(j.dir, name) }

// newLearnJob trains a model on the labeled part of a recording, and makes a stage
// predict all of it.
func newLearnJob(t *testing.T, want int, retrain ...string) *learnJob {
	t.Helper()
	return newLearnJobOf(t, labeledCSV(), want, retrain...)
}

func newLearnJobOf(t *testing.T, recording string, want int, retrain ...string) *learnJob {
	t.Helper()
	j := &learnJob{dir: t.TempDir()}
	j.model = j.in("m.safetensors")
	table, archive := j.in("r.csv"), j.in("r.parquet")
	clitest.Write(t, table, recording)
	clitest.Must(t, "import", table, "--output", archive)
	clitest.Must(t, append([]string{"train", archive, "--output", j.model}, retrain...)...)
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: j.in("data"), Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	j.server, j.url = server, server.URL()
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", j.model, "--partitions", "3", "--nats-url", j.url)
	clitest.Must(t, "replay", archive, "--nats-url", j.url, "--rows", "7")
	clitest.Await(t, j.url, want, 0)
	j.predictions = clitest.Must(t, "tail", "--since", "1h", "--json", "--nats-url", j.url).Lines(t)
	stage.Stop(t).Want(t, cli.ExitOK)
	return j
}

// say stores labels.
func (j *learnJob) say(t *testing.T, all ...labels.Label) {
	t.Helper()
	clitest.OnServer(t, j.url, func(js jetstream.JetStream) error {
		for _, l := range all {
			if l.When = time.Now(); l.Who == "" {
				l.Who = "anna"
			}
			if _, err := labels.Add(t.Context(), js, "eusn", l); err != nil {
				return err
			}
		}
		return nil
	})
}

// learnInterval labels an interval of samples of a stream.
func learnInterval(stream, from, to int, class string) labels.Label {
	return labels.Label{Stream: fmt.Sprintf("m%d", stream), From: learnBegin + int64(from)*learnStep, To: learnBegin + int64(to)*learnStep, Class: class}
}

// predicted labels the k-th prediction of a stream.
func (j *learnJob) predicted(t *testing.T, stream, k int, class string) labels.Label {
	t.Helper()
	name := fmt.Sprintf("m%d", stream)
	n := 0
	for _, p := range j.predictions {
		if p["stream"] != name {
			continue
		}
		if n++; n == k+1 {
			return labels.Label{Stream: name, Seq: uint64(p["seq"].(float64)), Row: uint32(p["row"].(float64)), Class: class}
		}
	}
	t.Fatalf("stream %s has %d predictions, want more than %d", name, n, k)
	return labels.Label{}
}

// sayAll labels 30 %: streams of even number by prediction, the others by times.
func (j *learnJob) sayAll(t *testing.T) { j.sayOf(t, func(int) bool { return true }) }

// sayOf is sayAll of some streams.
func (j *learnJob) sayOf(t *testing.T, some func(stream int) bool) {
	t.Helper()
	var all []labels.Label
	for k := range learnSequences { // not in the order of the streams
		for s := range learnStreams {
			switch {
			case !some(s) || !learnLabeled(s, k):
			case s%2 == 0:
				all = append(all, j.predicted(t, s, k, learnClass(s, k)))
			default:
				all = append(all, learnInterval(s, k*learnLength, (k+1)*learnLength, learnClass(s, k)))
			}
		}
	}
	j.say(t, all...)
}

func (j *learnJob) args(out string, more ...string) []string {
	return append([]string{"learn", "--model", j.model, "--store", j.in("store"), "--output", j.in(out), "--nats-url", j.url, "--progress", "none"}, more...)
}

func loadModel(t *testing.T, path string) *reservoir.Model {
	t.Helper()
	m, err := reservoir.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sameReadout wants two models to have the same readout, bit for bit.
func sameReadout(t *testing.T, what, got, want string) {
	t.Helper()
	a, b := loadModel(t, got).Readouts[0], loadModel(t, want).Readouts[0]
	bits := func(v []float32) (u []uint32) {
		for _, x := range v {
			u = append(u, math.Float32bits(x))
		}
		return u
	}
	for _, v := range []struct {
		what string
		a, b []float32
	}{{"weights", a.Weights, b.Weights}, {"center", a.Center, b.Center}, {"limits", a.Limit, b.Limit}, {"intercept", a.Intercept, b.Intercept}} {
		if !slices.Equal(bits(v.a), bits(v.b)) {
			t.Errorf("%s: the %s of the readouts differ", what, v.what)
		}
	}
	if !slices.Equal(a.Classes, b.Classes) || a.Temperature != b.Temperature || a.Name != b.Name {
		t.Errorf("%s: classes %v, temperature %v, name %q; want %v, %v, %q", what, a.Classes, a.Temperature, a.Name, b.Classes, b.Temperature, b.Name)
	}
}

// learn, with a job's log and later labels, gives the readout of train with a recording
// and the same labels, bit for bit, for any network and policy.
func TestLearnIsRetrain(t *testing.T) {
	t.Parallel()
	all := learnStreams * learnSequences
	for name, c := range map[string]struct {
		want    int
		retrain []string
	}{
		"marked":          {all, []string{"--members", "2", "--units", "8"}},
		"mixed, clipped":  {all, []string{"--bank", "tiny"}},
		"more than feats": {all, []string{"--members", "1", "--units", "4", "--features", "last"}},
		"count":           {all, []string{"--members", "2", "--units", "8", "--policy", "count", "--length", "40"}},
		"early":           {3 * all, []string{"--members", "2", "--units", "8", "--early", "15"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newLearnJob(t, c.want, c.retrain...)
			if name == "early" { // only ends are learned from, and labels name ends
				j.predictions = slices.DeleteFunc(j.predictions, func(p map[string]any) bool { return strings.Contains(fmt.Sprint(p["flags"]), "early") })
			}
			j.sayAll(t)
			var did map[string]any
			clitest.Must(t, j.args("new.safetensors", "--json")...).Parse(t, &did)
			sameReadout(t, name, j.in("new.safetensors"), j.model)
			if did["labels_used"] != did["labels_read"] || did["labels_pending"] != 0. || did["sequences"] != did["labels_read"] {
				t.Errorf("it counts %v", did)
			}
		})
	}
}

// to runs learn, and returns the output of --json.
func (j *learnJob) to(t *testing.T, out string, more ...string) map[string]any {
	t.Helper()
	var did map[string]any
	clitest.Must(t, j.args(out, append(more, "--json")...)...).Parse(t, &did)
	return did
}

// Wrong, repeated, corrected, withdrawn and disputed labels are counted, and listed
// with a reason; training without a part equals training before that part was labeled.
func TestLearnLabels(t *testing.T) {
	t.Parallel()
	j := newLearnJob(t, learnStreams*learnSequences, "--members", "2", "--units", "8")
	counts := func(what string, did map[string]any, want map[string]float64) {
		t.Helper()
		for name, n := range want {
			if did[name] != n {
				t.Errorf("%s: %s is %v, want %v", what, name, did[name], n)
			}
		}
	}
	clitest.Exec(t, t.Context(), j.args("new.safetensors")...).Want(t, cli.ExitFailure, "the job has no labels", "try: ")
	j.sayOf(t, func(stream int) bool { return stream > 1 })
	counts("four streams", j.to(t, "four.safetensors"), map[string]float64{"sequences": 24})
	j.sayOf(t, func(stream int) bool { return stream < 2 })
	const n = 36
	counts("six streams", j.to(t, "six.safetensors"), map[string]float64{"labels_read": n, "labels_used": n, "sequences": n, "features_stored": n})
	sameReadout(t, "all labels", j.in("six.safetensors"), j.model)
	counts("without two", j.to(t, "without.safetensors", "--solve", "--exclude", "stream=m0", "--exclude", "stream=*1"), map[string]float64{"sequences": 24, "sequences_left_out": 12, "labels_left_out": 12})
	sameReadout(t, "without two streams", j.in("without.safetensors"), j.in("four.safetensors"))
	at := func(sample int) string {
		return time.Unix(0, learnBegin+int64(sample)*learnStep).UTC().Format(time.RFC3339Nano)
	}
	counts("without a time", j.to(t, "part.safetensors", "--solve", "--exclude", at(0)+".."+at(1)), map[string]float64{"sequences_left_out": 2}) // of m0 and m3
	clitest.Exec(t, t.Context(), j.args("part.safetensors", "--solve", "--exclude", "stream=*")...).Want(t, cli.ExitFailure, "none of 36 labels", "try: ")

	bert := func(l labels.Label) labels.Label { l.Who = "bert"; return l }
	j.say(t,
		bert(j.predicted(t, 0, 0, "slow")),                        // anna's label is fast
		bert(j.predicted(t, 0, 1, "fast")),                        // agrees
		j.predicted(t, 0, 5, "odd"), j.predicted(t, 0, 5, "slow"), // corrected
		j.predicted(t, 0, 6, "odd"), j.predicted(t, 0, 6, ""), // taken back
		labels.Label{Stream: "m99", From: 1, To: 2, Class: "odd"},         // no such stream
		labels.Label{Stream: "m0", Seq: 123456, Row: 1, Class: "odd"},     // no such prediction
		learnInterval(1, 201, 239, "odd"),                                 // within a sequence
		learnInterval(1, 5*learnLength, 7*learnLength, "slow"),            // of two sequences; anna has labeled the first as odd
		bert(learnInterval(2, 1000*learnLength, 1001*learnLength, "odd")), // later than all
		learnInterval(0, 0, 3*learnLength, "odd"),                         // anna has named these sequences by their predictions
	)
	clitest.OnServer(t, j.url, func(js jetstream.JetStream) error {
		for i := range 30 {
			if _, err := js.Publish(t.Context(), "eusn.labels.m0", fmt.Appendf(nil, `{"stream":"m0","label":%d}`, i)); err != nil {
				return err
			}
		}
		return nil
	})
	did := j.to(t, "more.safetensors")
	counts("hostile", did, map[string]float64{
		"labels_read": n + 42, "labels_malformed": 30, "labels_replaced": 2, "labels_pending": 4, "labels_disputed": 2,
		"sequences_disputed": 1, "labels_overruled": 2, "sequences": n + 1, "features_stored": n + 2,
	})
	reasons := fmt.Sprint(did["pending_reasons"])
	for _, reason := range []string{"no sequence of this stream has ended in the log:1", "do not count):1", "lies in that time:1", "in that time yet:1"} {
		if !strings.Contains(reasons, reason) {
			t.Errorf("the reasons are %s, want %q", reasons, reason)
		}
	}
	if len(did["malformed"].([]any)) != 20 || len(did["pending"].([]any)) != 4 || len(did["disputes"].([]any)) != 1 {
		t.Errorf("it lists %v, %v, %v", did["malformed"], did["pending"], did["disputes"])
	}
	counts("nothing new", j.to(t, "again.safetensors"), map[string]float64{"sequences": n + 1, "features_stored": n + 2})
	sameReadout(t, "again", j.in("again.safetensors"), j.in("more.safetensors"))
	counts("without bert", j.to(t, "bert.safetensors", "--solve", "--exclude", "who=bert"), map[string]float64{"sequences": n + 2, "sequences_disputed": 0, "labels_left_out": 2})

	left := j.to(t, "sites.safetensors", "--solve", "--leave-out", "^m([0-9])")["left_out"].([]any)
	if len(left) != learnStreams || left[0].(map[string]any)["sequences"] != 6. || left[0].(map[string]any)["correct"] != 6. {
		t.Errorf("left out: %v", left)
	}
	text := clitest.Must(t, j.args("text.safetensors")...)
	for _, part := range []string{"labels     78 read, 45 count: ", "pending    1: no sequence", "disputed   m0  seq", "no label   message", "class      slow  ", "stream     m1  7", "leave-one-out", "sha256"} {
		if !strings.Contains(text.Out, part) {
			t.Errorf("it prints no %q:\n%s", part, text.Out)
		}
	}
	for says, args := range map[string][]string{
		"--exclude": {"--exclude", "m0"}, "a time and a later one": {"--exclude", at(1) + ".." + at(0)},
		"regular expression with a group": {"--leave-out", "m."}, "are for --follow": {"--after", "3"}, "exclude each other": {"--solve", "--follow"},
	} {
		clitest.Exec(t, t.Context(), j.args("x.safetensors", args...)...).Want(t, cli.ExitUsage, says, "try: ")
	}
	clitest.Exec(t, t.Context(), j.args("x.safetensors", "--job", "eusm")...).Want(t, cli.ExitFailure, `"eusm"`, "the jobs here are: eusn", "try: ")
	other := j.in("other.safetensors")
	clitest.Must(t, "train", j.in("r.parquet"), "--output", other, "--members", "2", "--units", "9")
	clitest.Exec(t, t.Context(), j.args("x.safetensors", "--model", other)...).Want(t, cli.ExitFailure, "the store has another origin", "try: ")
	slow := clitest.Start(t, "nothing of it is read", j.args("follow.safetensors", "--follow", "--interval", "1s", "--after", "3")...)
	go io.Copy(io.Discard, slow.Out)
	clitest.Exec(t, t.Context(), j.args("x.safetensors")...).Want(t, cli.ExitFailure, "another process uses", "try: ")
	clitest.AwaitFile(t, j.in("follow.safetensors"))
	before := clitest.Read(t, j.in("follow.safetensors"))
	j.say(t, j.predicted(t, 3, 8, learnClass(3, 8)), j.predicted(t, 3, 9, learnClass(3, 9)), j.predicted(t, 4, 9, learnClass(4, 9)))
	for end := time.Now().Add(pipelinetest.Patience); string(clitest.Read(t, j.in("follow.safetensors"))) == string(before); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after three more labels there is no other model:\n%s", slow.Messages())
		}
	}
	slow.Stop(t).Want(t, cli.ExitInterrupted, "continues")
	if left := clitest.Leftovers(t, j.in("store"), "learn.json", "lock", "features-000001.seg", "features-000002.seg", "features-000003.seg", "features-000004.seg"); len(left) > 0 {
		t.Errorf("the store has %v", left)
	}
}

// A learner killed at any point loses nothing and duplicates nothing. Data in its store
// needs no log.
func TestLearnKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT CHECKED: killed programs take seconds, -short was given")
	}
	j := newLearnJob(t, learnStreams*learnSequences, "--bank", "tiny")
	j.sayAll(t)
	for _, at := range []string{"lock", "learn.json", "features-*.seg.tmp", "features-*.seg", "learn.json.tmp"} {
		store := j.in("killed-" + strings.Trim(at, "*."))
		args := append(j.args("killed.safetensors"), "--store", store)
		for range 2 {
			cmd := planttest.Command(args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			over := make(chan struct{})
			go func() { cmd.Wait(); close(over) }()
			for seen := false; !seen; {
				select {
				case <-over: // learn ended before the kill
					seen = true
				default:
					found, _ := filepath.Glob(filepath.Join(store, at))
					seen = len(found) > 0
				}
			}
			cmd.Process.Kill()
			<-over
		}
		var did map[string]any
		clitest.Must(t, append(args, "--json")...).Parse(t, &did)
		if did["features_stored"] != 36. || did["sequences"] != 36. {
			t.Errorf("killed at %s: %v", at, did)
		}
		sameReadout(t, "killed at "+at, j.in("killed.safetensors"), j.model)
	}
	clitest.OnServer(t, j.url, func(js jetstream.JetStream) error {
		in, err := js.Stream(t.Context(), "EUSN-IN")
		if err != nil {
			return err
		}
		return in.Purge(t.Context())
	})
	did := j.to(t, "gone.safetensors", "--store", j.in("killed-lock"))
	if did["sequences"] != 36. {
		t.Errorf("without the log: %v", did)
	}
	sameReadout(t, "without the log", j.in("gone.safetensors"), j.model)
	if did := j.to(t, "gone.safetensors", "--store", j.in("killed-lock"), "--whole"); did["sequences"] != 36. {
		t.Errorf("without the log, looked at whole: %v", did)
	}
	clitest.Exec(t, t.Context(), append(j.args("new.safetensors"), "--store", j.in("empty"))...).Want(t, cli.ExitFailure, "none of 36 labels")
}
