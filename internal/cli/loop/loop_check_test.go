package loop_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// loopPlace names a prediction.
type loopPlace struct {
	stream string
	seq    uint64
	row    uint32
}

// loopSays is a prediction's sequence and readout.
type loopSays struct {
	at      loopPlace
	readout string // fingerprint
	scores  []float32
	newest  []float32 // from the log: the scores of the newest readout
}

// compareWithLog compares the results of a run with its log.
func (l *loop) compareWithLog(promotions int) {
	t := l.T
	t.Helper()
	time.Sleep(time.Second) // for a prediction too many
	for _, s := range []string{"recorder", "worker-0", "worker-1"} {
		l.Services[s].End()
	}
	last := clitest.Start(t, "reading sensors.*", l.runCommand()...)
	l.Await("the newest promotion in every partition", func() bool {
		all, err := operate.PromotionsOf(t.Context(), l.JS, "eusn")
		return err == nil && all.Complete() && all.Newest().Number >= uint64(promotions)
	})
	last.Stop(t).Want(t, cli.ExitOK)
	clitest.Must(t, "state", "verify", "--model", l.Model, "--nats-url", l.URL)

	began := time.Now()
	want, got := l.readoutsOfLog(), l.predictions("eusn")
	for i := range got {
		got[i].readout = l.named(got[i].readout)
	}
	t.Logf("the log, computed again with every readout, and the output: read in %v", time.Since(began).Round(100*time.Millisecond))
	l.compare(want, got)
	l.checkOffline(want)
	l.checkStates(want)
	recording := filepath.Join(l.Dir, "recording")
	clitest.Must(t, "record", "--model", l.Model, "--nats-url", l.URL, "--output", recording, "--until", "now")
	clitest.Must(t, "record", "verify", recording, "--model", l.Model, "--nats-url", l.URL)
}

// compare compares the job's predictions, in the order of its output, with the log.
func (l *loop) compare(want, got []loopSays) {
	t := l.T
	t.Helper()
	if n := l.sequences(); len(want) != n || len(got) != n {
		t.Errorf("%d sequences sent, %d in the log, %d predicted", n, len(want), len(got))
	}
	made, used, wrong := byPlace(got), map[string]int{}, 0
	for _, w := range want {
		g := made[w.at]
		if g.readout != w.readout || !slices.Equal(g.scores, w.scores) {
			if wrong++; wrong < 5 {
				t.Errorf("%+v: readout %q, scores %v; by the log readout %q, scores %v", w.at, g.readout, g.scores, w.readout, w.scores)
			}
		}
		used[w.readout]++
	}
	// One switch for each promotion: a stream's predictions do not return to the
	// previous readout.
	should, is := switches(want), switches(got)
	all := 0
	for _, n := range is {
		all += n
	}
	t.Logf("%d predictions by %d readouts, %d promotions; %d changes of readout in %d streams; 0 lost, 0 doubled, %d wrong", len(got), len(used), l.promoted(), all, loopStreams, wrong)
	if wrong > 0 || len(used) < 2 || len(is) != loopStreams || !maps.Equal(is, should) {
		t.Errorf("%d of %d predictions are wrong; by readout %v, want some of two or more; changes of readout by stream %v, want %v, one or more in each of %d", wrong, len(want), used, is, should, loopStreams)
	}
}

// switches counts how often another readout answers than before, by stream.
func switches(all []loopSays) map[string]int {
	before, n := map[string]string{}, map[string]int{}
	for _, s := range all {
		if b := before[s.at.stream]; b != "" && b != s.readout {
			n[s.at.stream]++
		}
		before[s.at.stream] = s.readout
	}
	return n
}

func byPlace(all []loopSays) map[loopPlace]loopSays {
	of := make(map[loopPlace]loopSays, len(all))
	for _, s := range all {
		of[s.at] = s
	}
	return of
}

// predictions returns all predictions of a job, each of a different sequence, in the
// order of its output. The readouts are named as in the predictions.
func (l *loop) predictions(job string) (all []loopSays) {
	l.T.Helper()
	seen := map[loopPlace]bool{}
	err := consumer.Read(l.T.Context(), l.JS, job, consumer.Span{From: 1, Stored: true}, func(o consumer.Output) error {
		for _, p := range o.Predictions {
			at := loopPlace{p.Stream, p.Seq, p.Row}
			if seen[at] {
				l.T.Errorf("%+v is predicted twice", at)
			}
			if seen[at] = true; p.Flags&outcome.FlagGap != 0 {
				l.T.Errorf("%+v is flagged %s", at, p.Flags)
			}
			all = append(all, loopSays{at: at, readout: p.Readout, scores: slices.Clone(p.Scores)})
		}
		return nil
	})
	if err != nil {
		l.T.Fatal(err)
	}
	return all
}

// checkOffline predicts the log with the newest readout, by the program's command, from
// the readout's training on.
func (l *loop) checkOffline(want []loopSays) {
	t := l.T
	t.Helper()
	began, newest := time.Now(), l.learned[len(l.learned)-1]
	out := filepath.Join(l.Dir, "offline.jsonl")
	clitest.Must(t, "job", "backfill", "--since", l.newest.UTC().Format(time.RFC3339Nano), "--lead-in", "1m", "--model", l.files[newest], "--output", out, "--nats-url", l.URL, "--progress", "none")
	offline := map[loopPlace][]float32{}
	for line := range strings.Lines(string(clitest.Read(t, out))) {
		var p clitest.Line
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if !strings.Contains(p.Flags, outcome.FlagGap.String()) { // not begun before the minute
			offline[loopPlace{p.Stream, p.Seq, p.Row}] = p.Scores
		}
	}
	wrong, answered := 0, 0
	for _, w := range want {
		scores, there := offline[w.at]
		if w.readout == newest {
			answered++
		}
		if (there || w.readout == newest) && !slices.Equal(scores, w.newest) {
			if wrong++; wrong < 5 {
				t.Errorf("%+v: backfill by readout %s has scores %v, the log %v", w.at, newest, scores, w.newest)
			}
		}
	}
	t.Logf("backfill by the newest readout: %d predictions, %d of them answered by it, %d wrong, in %v", len(offline), answered, wrong, time.Since(began).Round(100*time.Millisecond))
	if wrong > 0 || answered == 0 {
		t.Errorf("%d predictions of backfill are wrong, %d are of the newest readout", wrong, answered)
	}
}

// checkStates reads the same input with a second job and the newest readout. The second
// job ignores the promotions: its states must equal the job's, and every prediction
// must come from that readout.
func (l *loop) checkStates(want []loopSays) {
	t := l.T
	t.Helper()
	began, newest := time.Now(), l.learned[len(l.learned)-1]
	records := l.Records("eusn")
	for range 5 { // repeated if it was stopped before it had read the input after the last prediction
		second := clitest.Start(t, "reading the input of job eusn", "run", "-c", l.conf, "--model", l.files[newest], "--nats-url", l.URL, "--job", loopPlain, "--input-job", "eusn")
		l.predictedBy(loopPlain)
		time.Sleep(time.Second)
		second.Stop(t).Want(t, cli.ExitOK)
		if slices.Equal(l.Records(loopPlain), records) {
			break
		}
	}
	got := l.predictions(loopPlain)
	made, wrong := byPlace(got), 0
	for _, w := range want {
		if !slices.Equal(made[w.at].scores, w.newest) {
			wrong++
		}
	}
	t.Logf("a second job without promotions: %d predictions, %d wrong, in %v", len(got), wrong, time.Since(began).Round(100*time.Millisecond))
	if len(got) != len(want) || wrong > 0 {
		t.Errorf("without promotions: %d predictions, want %d; %d have not the scores of readout %s", len(got), len(want), wrong, newest)
	}
	if alone := l.Records(loopPlain); !slices.Equal(alone, records) || len(records) != loopPartitions || records[0].Digest == "" {
		t.Errorf("without promotions the partitions end as %v, with them as %v", alone, records)
	}
}
