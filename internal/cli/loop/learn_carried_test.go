package loop_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// forgetInput removes the first half of a job's log, or all of it.
func (j *learnJob) forgetInput(t *testing.T, all bool) {
	t.Helper()
	clitest.OnServer(t, j.url, func(js jetstream.JetStream) error {
		in, err := js.Stream(t.Context(), "EUSN-IN")
		if err != nil {
			return err
		}
		last := in.CachedInfo().State.LastSeq
		if !all {
			last /= 2
		}
		return in.Purge(t.Context(), jetstream.WithPurgeSequence(last+1))
	})
}

// If the log no longer has the samples, learn uses the features that predictions
// carried: the readout equals the readout from the whole log, bit for bit, for any
// policy. Without features, learn has no training data.
func TestLearnFromCarriedFeatures(t *testing.T) {
	const all = learnStreams * learnSequences
	for name, c := range map[string]struct {
		want    int
		whole   bool // the log is emptied
		retrain []string
	}{
		"marked":  {all, true, []string{"--members", "2", "--units", "8"}},
		"count":   {all, false, []string{"--members", "2", "--units", "8", "--policy", "count", "--length", "40"}},
		"endless": {all, false, []string{"--members", "2", "--units", "8", "--policy", "endless", "--early", "40"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("EUSN_OUTPUT_FEATURES_ONE_IN", "1")
			class, recording := learnClass, labeledCSV()
			if name == "endless" { // a stream has one class
				class = func(stream, _ int) string { return learnClass(stream, 0) }
				recording = labeledCSVOf(class, func(_, k int) bool { return true })
			}
			j := newLearnJobOf(t, recording, c.want, c.retrain...)
			if name == "endless" { // no time range holds all samples of such a prediction
				for s := range learnStreams {
					for k := range learnSequences {
						if learnLabeled(s, k) {
							j.say(t, j.predicted(t, s, k, class(s, k)))
						}
					}
				}
			} else {
				j.sayAll(t)
			}
			whole := clitest.Must(t, j.args("whole.safetensors")...)
			if strings.Contains(whole.ErrOut, "came with their predictions") {
				t.Errorf("with the whole log, it takes what predictions carry: %s", whole.ErrOut)
			}
			j.forgetInput(t, c.whole)
			later := clitest.Must(t, j.args("later.safetensors", "--store", j.in("later"))...)
			if !strings.Contains(later.ErrOut, "features of 36 sequences came with their predictions") {
				t.Errorf("it says %s", later.ErrOut)
			}
			sameReadout(t, name, j.in("later.safetensors"), j.in("whole.safetensors"))
			if again := clitest.Must(t, j.args("again.safetensors", "--store", j.in("later"))...); strings.Contains(again.ErrOut, "36 sequences") {
				t.Errorf("it takes them again: %s", again.ErrOut)
			}
			sameReadout(t, name+", again", j.in("again.safetensors"), j.in("whole.safetensors"))
		})
	}
}
