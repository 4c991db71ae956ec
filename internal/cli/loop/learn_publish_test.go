package loop_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// learn publishes the model file that it writes, with its origin. An equal readout is
// not published a second time, and with --follow the next readout is.
func TestLearnPublishes(t *testing.T) {
	t.Parallel()
	j := newLearnJob(t, learnStreams*learnSequences, "--members", "2", "--units", "8", "--novelty")
	j.sayOf(t, func(stream int) bool { return stream > 1 })
	list := func() map[string]map[string]any { // by fingerprint: two entries may have the same second
		t.Helper()
		var all []map[string]any
		clitest.Must(t, "model", "list", "--json", "--nats-url", j.url).Parse(t, &all)
		by := map[string]map[string]any{}
		for _, e := range all {
			by[e["fingerprint"].(string)] = e
		}
		return by
	}
	other := func(known ...string) string { // the unknown entry
		t.Helper()
		all := list()
		for _, print := range known {
			delete(all, print)
		}
		for print := range all {
			return print
		}
		return ""
	}
	publish := func(more ...string) []string {
		return append([]string{"learn", "--model", j.model, "--store", j.in("store"), "--publish", "--who", "anna", "--nats-url", j.url, "--progress", "none"}, more...)
	}
	first := other()
	j.to(t, "trial.safetensors")
	if all := list(); len(all) != 1 {
		t.Fatalf("without --publish the registry has %v", all)
	}
	type published struct {
		Published struct {
			Fingerprint, Parent string
			New                 bool
		}
	}
	var did published
	r := clitest.Must(t, publish("--leave-out", "stream", "--exclude", "who=bert", "--json")...)
	if r.Parse(t, &did); !strings.Contains(r.ErrOut, "predictions have no novelty") || strings.Contains(r.ErrOut, "decided early") {
		t.Errorf("of a readout with a detector, which the new one has not: %s", r.ErrOut)
	}
	second := did.Published.Fingerprint
	if all := list(); len(all) != 2 || !did.Published.New || did.Published.Parent != first || other(first) != second || all[second]["parent"] != first || all[second]["active"] != false {
		t.Fatalf("published %+v, the registry has %v", did, all)
	}
	if file := strings.TrimSpace(clitest.Must(t, "model", "publish", j.in("trial.safetensors"), "--nats-url", j.url).Out); file != did.Published.Fingerprint || len(list()) != 2 {
		t.Errorf("the file's readout is %s, the published one %s", file, did.Published.Fingerprint)
	}
	show := clitest.Must(t, "model", "show", did.Published.Fingerprint, "--nats-url", j.url).Out
	for _, part := range []string{
		"by anna", "learned from 24 labels of 24 sequences of 3 classes and 4 streams; right without m2: 6 of 6,", "eusn-stream learn --model ",
		"--leave-out stream --exclude who=bert", "labels up to 24, input up to ", "by leave-one-out (accuracy ",
	} {
		if !strings.Contains(show, part) {
			t.Errorf("it shows no %q:\n%s", part, show)
		}
	}
	if strings.Contains(show, j.url) {
		t.Errorf("it shows the server's address, which may hold a password:\n%s", show)
	}
	r = clitest.Must(t, publish("--json")...)
	r.Parse(t, &did)
	if did.Published.New || len(list()) != 2 || !strings.Contains(r.ErrOut, "nothing has changed: the registry has this readout since ") {
		t.Errorf("published again: %+v\n%s", did, r.ErrOut)
	}
	clitest.Exec(t, t.Context(), j.args("x.safetensors", "--who", "anna")...).Want(t, cli.ExitUsage, "are for --publish", "try: ")

	shadows := func() (all []map[string]any) {
		t.Helper()
		clitest.Must(t, "model", "shadow", "list", "--json", "--nats-url", j.url).Parse(t, &all)
		return all
	}
	clitest.Must(t, publish("--shadow")...)
	if all := shadows(); len(all) != 1 || all[0]["readout"] != second {
		t.Errorf("the shadows are %v, want %v", all, second)
	}
	if r := clitest.Must(t, publish("--shadow")...); !strings.Contains(r.ErrOut, "is a shadow already") || len(shadows()) != 1 {
		t.Errorf("a shadow twice: %s", r.ErrOut)
	}

	slow := clitest.Start(t, "nothing has changed", publish("--shadow", "--follow", "--interval", "1s", "--after", "3")...)
	go io.Copy(io.Discard, slow.Out)
	j.sayOf(t, func(stream int) bool { return stream == 0 })
	for end := time.Now().Add(pipelinetest.Patience); len(list()) < 3 || shadows()[0]["readout"] == second || len(shadows()) > 1; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after six more labels nothing is published:\n%s", slow.Messages())
		}
	}
	slow.Stop(t).Want(t, cli.ExitInterrupted, "continues")
	third := other(first, second)
	if all := list(); all[third]["parent"] != first {
		t.Errorf("the entries are %v", all)
	}
	if s := shadows(); len(s) != 1 || s[0]["readout"] != third || s[0]["who"] != "learn, anna" {
		t.Errorf("the shadows are %v, want %v alone", s, third)
	}
	// A model that is not in the registry is no parent.
	clitest.Must(t, "train", j.in("r.parquet"), "--output", j.in("alpha.safetensors"), "--members", "2", "--units", "8", "--alpha", "77")
	r = clitest.Must(t, publish("--exclude", "stream=m3", "--solve", "--model", j.in("alpha.safetensors"), "--json")...)
	did = published{}
	r.Parse(t, &did)
	if !did.Published.New || did.Published.Parent != "" || !strings.Contains(r.ErrOut, "names no parent") {
		t.Errorf("published %+v\n%s", did, r.ErrOut)
	}
}
