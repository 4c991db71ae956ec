package past_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/explain"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// predicted is a job that has predicted an archive, with a running stage.
type predicted struct {
	url, model, archive string
	lines               []map[string]any // its predictions, as in tail --json
}

func newPredicted(t *testing.T, retrain ...string) *predicted {
	t.Helper()
	dir := t.TempDir()
	p := &predicted{model: filepath.Join(dir, "m.safetensors"), archive: clitest.ImportTiny(t, 2)}
	clitest.Must(t, append([]string{"train", p.archive, "--output", p.model}, retrain...)...)
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: filepath.Join(dir, "data"), Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	p.url = server.URL()
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", p.model, "--partitions", "3", "--nats-url", p.url)
	t.Cleanup(func() { stage.Stop(t) })
	clitest.Must(t, "replay", p.archive, "--nats-url", p.url, "--rows", "7")
	clitest.Await(t, p.url, 24, 0)
	p.lines = clitest.Must(t, "tail", "--since", "1h", "--json", "--nats-url", p.url).Lines(t)
	return p
}

func (p *predicted) runCommand(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Exec(t, t.Context(), append(slices.Clone(args), "--nats-url", p.url, "--progress", "none")...)
}

// explain next to a running stage: the newest prediction of a stream, for people and
// complete, and predictions that cannot be explained.
func TestExplain(t *testing.T) {
	p := newPredicted(t, "--bank", "tiny")
	last := p.lines[len(p.lines)-1]
	stream := last["stream"].(string)
	r := p.runCommand(t, "explain", "--last", "--stream", stream)
	r.Want(t, cli.ExitOK)
	for _, want := range []string{stream, `class "` + last["class"].(string) + `"`, "the same scores, bit for bit", "commit", "of m.safetensors, with which the job began", "40; predicted", "nats stream get EUSN-IN", "why", "bias", "c0 at its training mean", "c1 at", "(tap, reads c"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("the explanation lacks %q:\n%s", want, r.Out)
		}
	}
	svg := filepath.Join(t.TempDir(), "why.svg")
	p.runCommand(t, "explain", "--last", "--stream", stream, "--picture", svg, "--stretches", "8").Want(t, cli.ExitOK, "the picture of it")
	if text, err := os.ReadFile(svg); err != nil || !strings.Contains(string(text), stream+": why "+last["class"].(string)) || strings.Count(string(text), "<title>samples ") != 8*3 {
		t.Errorf("the picture (%v):\n%s", err, text)
	}
	for _, line := range p.lines[:6] { // each test series is a stream of one sequence
		stream := line["stream"].(string)
		var e explain.Explanation
		p.runCommand(t, "explain", "--last", "--stream", stream, "--json").Parse(t, &e)
		if e.Prediction.Class != line["class"] || !e.Again.Same || e.Score == nil || len(e.Held) != 2 || len(e.Stretches) != 20 || e.Samples.Count != 40 || len(e.Score.Strong) != 5 || e.Readout.Entry == nil {
			t.Errorf("%v is explained as %+v", line, e)
		}
	}
	p.runCommand(t, "explain", "--last", "--stream", stream, "--model", p.model).Want(t, cli.ExitOK)

	other := filepath.Join(t.TempDir(), "other.safetensors")
	clitest.Must(t, "train", p.archive, "--output", other, "--members", "1", "--units", "5")
	p.runCommand(t, "explain", "--last", "--stream", stream, "--model", other).Want(t, cli.ExitOtherModel, "another network", "without --model")
	p.runCommand(t, "explain", "--last", "--stream", "nobody").Want(t, cli.ExitFailure, "no such prediction", `"nobody"`, "eusn-stream tail")
	p.runCommand(t, "explain", "--last", "--stream", stream, "--job", "other").Want(t, cli.ExitFailure, "there is no job", "eusn")
	for _, args := range []string{
		"", "--stream S", "--last", "--seq 3", "--last --seq 3 --stream S", "--row 1 --last --stream S", "--last --stream S --message 3", "--message 0",
		"--message 3 --number 0", "--message 3 --partition 1", "--partition 1", "--number 3", "--partition 1 --number 0", "--last --stream S --features -1",
		"--last --stream S --stretches -1", "--last --stream S --stretches 201",
	} {
		p.runCommand(t, append([]string{"explain"}, strings.Fields(args)...)...).Want(t, cli.ExitUsage, "try:")
	}
}

// state show --at next to a running stage: a partition, a stream, files for state diff,
// and missing partitions and streams.
func TestStateAsOf(t *testing.T) {
	p := newPredicted(t, "--members", "1", "--units", "8")
	last := p.lines[len(p.lines)-1]
	stream := last["stream"].(string)
	var e explain.Explanation
	p.runCommand(t, "explain", "--last", "--stream", stream, "--json").Parse(t, &e)
	before := strconv.FormatUint(e.Samples.By-1, 10)
	r := p.runCommand(t, "state", "show", stream, "--at", before)
	r.Want(t, cli.ExitOK)
	for _, want := range []string{"samples 35", "open after 35 samples: class", "digest "} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("the state lacks %q:\n%s", want, r.Out)
		}
	}
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.state"), filepath.Join(dir, "two.state")
	part := strconv.Itoa(e.Commit.Partition)
	p.runCommand(t, "state", "show", part, "--at", before, "-o", one).Want(t, cli.ExitOK, "written to")
	p.runCommand(t, "state", "show", part, "--at", "0s", "-o", two).Want(t, cli.ExitOK)
	clitest.Exec(t, t.Context(), "state", "diff", one, two).Want(t, cli.ExitFailure, "streams differ")
	var s struct {
		State struct {
			Verified bool `json:"verified"`
		} `json:"state"`
		Streams []struct {
			Stream string `json:"stream"`
		} `json:"streams"`
	}
	p.runCommand(t, "state", "show", part, "--at", strconv.FormatUint(e.Commit.InSeq, 10), "--json").Parse(t, &s)
	if !s.State.Verified || len(s.Streams) < 2 {
		t.Errorf("after a commit: %+v", s)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--at 3", cli.ExitUsage, "an argument is missing: want PARTITION"},
		{"1 -o x", cli.ExitUsage, "--output needs --at"},
		{"1 --at 0", cli.ExitUsage, "numbers from 1"},
		{"1 --at yesterday", cli.ExitUsage, "how long ago"},
		{"1 --at 2999-01-01", cli.ExitUsage, "future"},
		{"9 --at 3", cli.ExitFailure, "0 to 2"},
		{"1 --at 999999", cli.ExitFailure, "no message 999999 yet"},
		{"nobody --at 3", cli.ExitFailure, `no stream "nobody"`},
	} {
		p.runCommand(t, append([]string{"state", "show"}, strings.Fields(c.args)...)...).Want(t, c.code, c.says)
	}
}

// state diff between two positions of a running job's log, of all partitions, of a
// single partition, of a stream with units; and invalid comparisons.
func TestStateDiff(t *testing.T) {
	p := newPredicted(t, "--members", "1", "--units", "8")
	last := p.lines[len(p.lines)-1]
	stream := last["stream"].(string)
	var e explain.Explanation
	p.runCommand(t, "explain", "--last", "--stream", stream, "--json").Parse(t, &e)
	inputs := e.Samples.Inputs
	from, to := strconv.FormatUint(inputs[1].Message, 10), strconv.FormatUint(inputs[3].Message, 10)
	r := p.runCommand(t, "state", "diff", "--stream", stream, "--since", from, "--until", to, "--top", "3")
	r.Want(t, cli.ExitOK)
	for _, want := range []string{"1 of 1 streams differ", stream + "/" + stream + "  14 samples, 0 sequences begun, 0 ended  h differs by", "open: 14 samples, |h|", "open: 28 samples", "member 0, unit", "digest "} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("the comparison lacks %q:\n%s", want, r.Out)
		}
	}
	if n := strings.Count(r.Out, "member 0, unit"); n != 3 {
		t.Errorf("%d units, want 3:\n%s", n, r.Out)
	}
	var all []explain.Diff
	p.runCommand(t, "state", "diff", "--since", "1970-01-01", "--until", "0s", "--json").Parse(t, &all)
	samples, streams, ended := uint64(0), 0, uint64(0)
	for _, d := range all {
		for _, s := range d.Streams {
			streams++
			samples += *s.Samples
			ended += *s.Ended
		}
	}
	if len(all) != 3 || streams != 24 || samples != 24*40 || ended != 24 || all[0].ToReadout != e.Readout.Fingerprint {
		t.Errorf("%d partitions, %d streams, %d samples, %d sequences ended", len(all), streams, samples, ended)
	}
	part := strconv.Itoa(e.Commit.Partition)
	if r := p.runCommand(t, "state", "diff", "--partition", part, "--since", to, "--until", to); r.Code != cli.ExitOK || !strings.Contains(r.Out, ": 0 of ") {
		t.Errorf("one place twice: code %d\n%s", r.Code, r.Out)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", cli.ExitUsage, "an argument is missing: want FILE FILE"},
		{"--since 3", cli.ExitUsage, "--since and --until"},
		{"--until 3", cli.ExitUsage, "--since and --until"},
		{"a.state b.state --since 3 --until 4", cli.ExitUsage, "unexpected argument"},
		{"a.state b.state --stream s", cli.ExitUsage, "not for files"},
		{"--since 0 --until 3", cli.ExitUsage, "--since 0: input messages have numbers from 1"},
		{"--since 3 --until yesterday", cli.ExitUsage, "how long ago"},
		{"--since 5 --until 3", cli.ExitUsage, "--since 5 is after --until 3"},
		{"--since 1h --until 2h", cli.ExitUsage, "--since 1h is after --until 2h"},
		{"--since 3 --until 2999-01-01", cli.ExitUsage, "future"},
		{"--since 3 --until 5 --top 2", cli.ExitUsage, "--stream alone"},
		{"--since 3 --until 5 --stream s --partition 1", cli.ExitUsage, "or neither"},
		{"--since 3 --until 5 --partition 9", cli.ExitFailure, "0 to 2"},
		{"--since 3 --until 999999", cli.ExitFailure, "no message 999999 yet"},
		{"--since 3 --until 5 --stream nobody", cli.ExitFailure, `no stream "nobody"`},
	} {
		p.runCommand(t, append([]string{"state", "diff"}, strings.Fields(c.args)...)...).Want(t, c.code, c.says)
	}
}
