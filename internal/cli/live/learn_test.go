package live_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/pipeline/labels"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const (
	learnStreams, learnSequences, learnLength = 6, 20, 40
	learnBegin                                = 1_700_000_000_000_000_000
	learnStep                                 = int64(1_000_000) // ns
)

// learnClass is what a sequence is; learnLabelled says whether somebody says so: of
// 30 %.
func learnClass(stream, k int) string { return []string{"fast", "slow", "odd"}[(stream+k/5)%3] }

func learnLabelled(stream, k int) bool { return (stream*7+k)%10 < 3 }

// labelledCSV is a recording of streams of sequences, one stream after the other, with
// the labels that learn gets later.
func labelledCSV() string {
	var b strings.Builder
	b.WriteString("stream,time,end,c0,c1,label\n")
	for s := range learnStreams {
		for i := range learnSequences * learnLength {
			k, label := i/learnLength, ""
			if learnLabelled(s, k) {
				label = learnClass(s, k)
			}
			step := map[string]float64{"fast": .6, "slow": .2, "odd": 1.3}[learnClass(s, k)]
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

// newLearnJob trains a model on the labelled part of a recording, and lets a stage
// predict all of it.
func newLearnJob(t *testing.T, want int, retrain ...string) *learnJob {
	t.Helper()
	j := &learnJob{dir: t.TempDir()}
	j.model = j.in("m.safetensors")
	table, archive := j.in("r.csv"), j.in("r.parquet")
	clitest.Write(t, table, labelledCSV())
	clitest.Must(t, "offline", "import", "--csv", table, "--out", archive)
	clitest.Must(t, append([]string{"offline", "retrain", "--archive", archive, "--out", j.model}, retrain...)...)
	server, err := natsserver.Start(natsserver.Options{Dir: j.in("data"), Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	j.server, j.url = server, server.URL()
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", j.model, "--partitions", "3", "--nats-url", j.url)
	clitest.Must(t, "replay", "--archive", archive, "--nats-url", j.url, "--rows", "7")
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

// interval is that of samples of a stream.
func learnInterval(stream, from, to int, class string) labels.Label {
	return labels.Label{Stream: fmt.Sprintf("m%d", stream), From: learnBegin + int64(from)*learnStep, To: learnBegin + int64(to)*learnStep, Class: class}
}

// predicted is the k-th prediction of a stream, as a label names it.
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
func (j *learnJob) sayAll(t *testing.T) {
	var all []labels.Label
	for k := range learnSequences { // not in the order of the streams
		for s := range learnStreams {
			switch {
			case !learnLabelled(s, k):
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
	return append([]string{"learn", "--model", j.model, "--store", j.in("store"), "--out", j.in(out), "--nats-url", j.url, "--progress", "none"}, more...)
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

// What learn makes of a job's log and of labels that come after the predictions is
// what offline retrain makes of a recording with the same labels: the same readout, bit
// for bit, whatever network and policy.
func TestLearnIsRetrain(t *testing.T) {
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
			if name == "early" { // only ends are learnt from, and labels name ends
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

var _ = errors.New
var _ = os.Args
var _ = exec.Command
