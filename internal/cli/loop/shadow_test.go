package loop_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/trial"
)

// A candidate next to a running stage, by the commands: the report equals the two
// models' offline results, and a promotion depends on it.
func TestShadowCommands(t *testing.T) {
	t.Parallel()
	const all = learnStreams * learnSequences
	j := newLearnJob(t, all, "--members", "1", "--units", "4")
	j.sayOf(t, func(stream int) bool { return stream%2 == 1 }) // by times
	var wrong []labels.Label                                   // labels for which the candidate is worse
	for s := 0; s < learnStreams; s += 2 {
		for k := range learnSequences {
			if l := j.predicted(t, s, k, learnClass(s+1, k)); learnLabeled(s, k) {
				l.Who = "bert"
				wrong = append(wrong, l)
			}
		}
	}
	j.say(t, wrong...)
	at := func(args ...string) []string { return append(args, "--nats-url", j.url) }
	clitest.Must(t, j.args("new.safetensors")...)
	print := strings.TrimSpace(clitest.Must(t, at("model", "publish", j.in("new.safetensors"), "--who", "anna")...).Out)
	clitest.Exec(t, t.Context(), at("model", "promote", print, "--if", "better")...).Want(t, cli.ExitFailure, "has predicted nothing as a shadow", "try: eusn-stream model shadow "+print)

	clitest.Must(t, at("model", "shadow", "add", print[:8], "--who", "anna")...).Want(t, cli.ExitOK, "is a shadow")
	clitest.Exec(t, t.Context(), at("model", "shadow", "add", print)...).Want(t, cli.ExitFailure, "a shadow already")
	stage := clitest.Start(t, "reading sensors.*", at("run", "--model", j.model, "--partitions", "3")...)
	clitest.Must(t, at("replay", j.in("r.parquet"), "--rows", "7")...)
	clitest.Await(t, j.url, 2*all, 0)

	// Labels by prediction concern sequences from before the shadow; labels by times
	// concern repeated times.
	active, shadow := j.offline(t, j.model), j.offline(t, j.in("new.safetensors"))
	var want trial.Result
	for s := range learnStreams {
		for k := range learnSequences {
			name := fmt.Sprintf("m%d", s)
			a, b := active[name][k], shadow[name][k]
			want.Predictions++
			if a == b {
				want.Agreeing++
			}
			if !learnLabeled(s, k) || s%2 == 0 {
				continue
			}
			want.Labeled++
			class := learnClass(s, k)
			switch {
			case a == class && b == class:
				want.ActiveRight, want.ShadowRight = want.ActiveRight+1, want.ShadowRight+1
			case a == class:
				want.ActiveRight, want.ActiveOnly = want.ActiveRight+1, want.ActiveOnly+1
			case b == class:
				want.ShadowRight, want.ShadowOnly = want.ShadowRight+1, want.ShadowOnly+1
			}
		}
	}
	var got trial.Report
	if err := json.Unmarshal([]byte(clitest.Must(t, at("model", "shadow", "report", "--json")...).Out), &got); err != nil || len(got.Shadows) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	r := got.Shadows[0]
	if r.Predictions != want.Predictions || r.Agreeing != want.Agreeing || r.Missing != 0 || r.Labeled != want.Labeled ||
		r.ActiveRight != want.ActiveRight || r.ShadowRight != want.ShadowRight || r.ActiveOnly != want.ActiveOnly || r.ShadowOnly != want.ShadowOnly || !r.Shadow || want.Labeled == 0 || want.ActiveOnly == 0 || want.Agreeing == want.Predictions {
		t.Errorf("the report says\n%+v, the models offline\n%+v", r, want)
	}
	clitest.Must(t, at("model", "shadow", "report")...).Want(t, cli.ExitOK)
	better := clitest.Exec(t, t.Context(), at("model", "promote", print, "--if", "better", "--error", "0.001")...)
	better.Want(t, cli.ExitFailure, "nothing was promoted", fmt.Sprintf("of %d labeled sequences", want.Labeled), "want at most 0.001")
	out, err := pipelinetest.JetStreamAt(t, j.url).Stream(t.Context(), "EUSN-SHADOW")
	if err == nil {
		err = out.DeleteMsg(t.Context(), out.CachedInfo().State.LastSeq)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out := clitest.Must(t, at("model", "shadow", "report")...).Out; !strings.Contains(out, "predictions that the shadow lacks") { // behind its last one
		t.Errorf("without its last message, the report says\n%s", out)
	}
	clitest.Exec(t, t.Context(), at("model", "promote", print, "--if", "worse")...).Want(t, cli.ExitUsage, "want better or not-worse")
	clitest.Must(t, at("model", "promote", print, "--if", "not-worse", "--error", "0.5", "--margin", "0.9", "--who", "anna")...)
	clitest.Must(t, at("model", "shadow", "list")...).Want(t, cli.ExitOK, "no shadows")
	stage.Stop(t).Want(t, cli.ExitOK)
}

// offline returns a model's offline classes, by stream in order.
func (j *learnJob) offline(t *testing.T, model string) map[string][]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "classes.jsonl")
	clitest.Must(t, "predict", j.in("r.parquet"), "--model", model, "--output", out, "--progress", "none")
	all := map[string][]string{}
	for line := range strings.Lines(string(clitest.Read(t, out))) {
		var p clitest.Line
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[p.Stream] = append(all[p.Stream], p.Class)
	}
	return all
}
