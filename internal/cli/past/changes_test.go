package past_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/explain"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// changed is a job with a stopped and restarted stage, with changes in between.
type changed struct {
	predicted
	t    *testing.T
	stop func() // the stage
	n    int    // number of predictions so far
}

func newChanged(t *testing.T, retrain ...string) *changed {
	t.Helper()
	dir := t.TempDir()
	c := &changed{t: t}
	c.model, c.archive = filepath.Join(dir, "m.safetensors"), clitest.ImportTiny(t, 2)
	clitest.Must(t, append([]string{"train", c.archive, "--output", c.model}, retrain...)...)
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: filepath.Join(dir, "data"), Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	c.url = server.URL()
	return c
}

func (c *changed) start(args ...string) {
	c.t.Helper()
	stage := clitest.Start(c.t, "reading sensors.*", append([]string{"run", "--nats-url", c.url}, args...)...)
	c.stop = func() {
		c.t.Helper()
		stage.Stop(c.t).Want(c.t, cli.ExitOK)
	}
}

// play publishes all streams at the same time, and waits for their predictions.
func (c *changed) play(split string) {
	c.t.Helper()
	clitest.Must(c.t, "replay", c.archive, "--nats-url", c.url, "--rows", "7", "--streams", "24", "--split", split)
	c.n += 24
	clitest.Await(c.t, c.url, c.n, 0)
	c.lines = clitest.Must(c.t, "tail", "--since", "1h", "--json", "--nats-url", c.url).Lines(c.t)
}

// explained explains the newest prediction of a stream.
func (c *changed) explained(line map[string]any, more ...string) (e explain.Explanation) {
	c.t.Helper()
	args := append([]string{"explain", "--stream", line["stream"].(string), "--json", "--seq", strconv.Itoa(int(line["seq"].(float64)))}, more...)
	r := c.runCommand(c.t, args...)
	r.Want(c.t, cli.ExitOK)
	r.Parse(c.t, &e)
	return e
}

// same requires that recomputed predictions have the same bits.
func (c *changed) same(lines []map[string]any, more ...string) {
	c.t.Helper()
	for _, line := range lines {
		if e := c.explained(line, more...); !e.Again.Same || e.Again.OtherReadout || e.Prediction.Class != line["class"] || e.Score == nil || e.Samples.Count != 40 {
			c.t.Errorf("%v is explained as %+v, %+v", line, e.Prediction, e.Again)
		}
	}
}

// After a change of the number of partitions, all predictions are explained, including
// earlier ones; a stream is found in its current partition; states are known from the
// change on. After a trim, the error names the first message of the log.
func TestPastAfterResizeAndTrim(t *testing.T) {
	c := newChanged(t, "--members", "1", "--units", "8")
	conf := clitest.Write(t, filepath.Join(t.TempDir(), "c.yaml"), "stage: {max_streams: 14}\n") // all streams are more
	c.start("--model", c.model, "--partitions", "3", "-c", conf)
	c.play("test")
	c.stop()
	clitest.Must(t, "job", "resize", "5", "--model", c.model, "--nats-url", c.url, "-c", conf)
	before, cut := c.lines, strconv.Itoa(int(c.cut()))
	for _, line := range before[:5] {
		stream := line["stream"].(string)
		c.same([]map[string]any{line})
		if r := c.runCommand(t, "state", "show", stream, "--at", "0s", "-c", conf); r.Code != cli.ExitOK || !strings.Contains(r.Out, "from output message") {
			t.Errorf("%s after the change: code %d\n%s%s", stream, r.Code, r.Out, r.ErrOut)
		}
	}
	c.runCommand(t, "state", "show", "1", "--at", "9").Want(t, cli.ExitFailure, "partitions were changed", "a later --at")
	c.runCommand(t, "state", "diff", "--since", "9", "--until", "0s").Want(t, cli.ExitFailure, "partitions were changed")

	c.start("--model", c.model, "-c", conf)
	c.play("train")
	c.runCommand(t, "explain", "--last", "--stream", c.lines[40]["stream"].(string), "-c", conf).Want(t, cli.ExitOK)
	c.same(c.lines[24:30])
	c.same(before[6:9])
	if r := c.runCommand(t, "state", "diff", "--since", cut, "--until", "0s", "-c", conf, "--partition", "2"); r.Code != cli.ExitOK || !strings.Contains(r.Out, "sequences begun") {
		t.Errorf("since the change: code %d\n%s%s", r.Code, r.Out, r.ErrOut)
	}
	c.stop()

	clitest.Must(t, "job", "trim", "--min-age", "0s", "--nats-url", c.url)
	e := c.explained(before[0])
	if e.Again.Found || e.Again.Broken || !strings.Contains(e.Again.Why, "the log begins with message") || e.Prediction.Class != before[0]["class"] {
		t.Errorf("after the log was trimmed: %+v", e.Again)
	}
	c.runCommand(t, "state", "show", "0", "--at", "0s", "-c", conf).Want(t, cli.ExitOK)
}

// cut returns the last input message before the change of partitions.
func (c *changed) cut() (seq uint64) {
	for _, line := range c.lines {
		seq = max(seq, c.explained(line).Commit.InSeq)
	}
	return seq
}

// After a change of the network, earlier predictions are explained with their own model
// (a required argument), later predictions with the job's model.
func TestPastAfterReplace(t *testing.T) {
	c := newChanged(t, "--members", "2", "--units", "8")
	green := filepath.Join(t.TempDir(), "green.safetensors")
	clitest.Must(t, "train", c.archive, "--output", green, "--members", "3", "--units", "6", "--seed", "9")
	c.start("--model", c.model, "--partitions", "3")
	second := clitest.Start(t, "reading the input of job eusn", "run", "--model", green, "--nats-url", c.url, "--job", "green", "--input-job", "eusn")
	c.play("test")
	second.Stop(t).Want(t, cli.ExitOK)
	c.stop()
	clitest.Must(t, "job", "replace", "--with", "green", "--nats-url", c.url)
	before := c.lines
	c.same(before[:4], "--model", c.model)
	was := c.explained(before[0], "--model", c.model).Readout
	stream := before[0]["stream"].(string)
	c.runCommand(t, "explain", "--last", "--stream", stream).Want(t, cli.ExitFailure, "before job \"eusn\" got the network", "--model FILE")
	if r := c.runCommand(t, "explain", "--last", "--stream", stream, "--model", green); !strings.Contains(r.Out, "not computed again: ") || !strings.Contains(r.Out, "another network") {
		t.Errorf("with the model of now: %s%s", r.Out, r.ErrOut)
	}
	c.runCommand(t, "state", "show", "1", "--at", "9").Want(t, cli.ExitFailure, "partitions were changed")
	c.start("--model", green)
	c.play("train")
	c.same(c.lines[24:28])
	if is := c.explained(c.lines[24]).Readout; is.Fingerprint == was.Fingerprint || is.Network == was.Network || !is.First || !was.First {
		t.Errorf("readouts %+v and then %+v", was, is)
	}
	c.runCommand(t, "state", "show", c.lines[24]["stream"].(string), "--at", "0s").Want(t, cli.ExitOK)
	c.stop()
}
