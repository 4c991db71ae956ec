package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\nof two lines, ± and 日本": "plain\ttext\nof two lines, ± and 日本",
		"\x1b[31mred":           `\u001b[31mred`,
		"a\rb\x00\x7f":          `a\u000db\u0000\u007f`,
		"\u009b31m\u2028\u202e": `\u009b31m\u2028\u202e`,
		"\x9b1m":                "\ufffd1m",
		"cut short: \xe6\x97":   "cut short: \xe6\x97",
		"\ufffd\x1b":            "\ufffd\\u001b",
	} {
		var b bytes.Buffer
		if n, err := (cleaned{&b}).Write([]byte(in)); n != len(in) || err != nil || b.String() != want {
			t.Errorf("%q becomes %q (%d, %v), want %q", in, b.String(), n, err, want)
		}
	}
}

// Whatever data and arguments bring along, the terminal gets no control
// character: not in results, JSON, messages, errors, logs or progress.
func TestNothingSteersTheTerminal(t *testing.T) {
	const bad = "x\x1b]0;title\a\u009b31m"
	check := func(what, text, mark string) {
		t.Helper()
		if !strings.Contains(text, mark) {
			t.Errorf("%s lacks %q:\n%q", what, mark, text)
		}
		if strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "", "\r\x1b[K", "").Replace(text), unicode.IsControl) {
			t.Errorf("%s has control characters: %q", what, text)
		}
	}
	r := exec(t, t.Context(), "model", "inspect", bad)
	check("an error", r.errOut, `x\u001b]0;title\u0007\u009b31m`)
	r = exec(t, t.Context(), "help", bad)
	check("a usage error", r.errOut, "no help on")

	var out, errOut bytes.Buffer
	a := &app{stdout: cleaned{&out}, stderr: cleaned{&errOut}, progressMode: "plain"}
	a.print("label %s", bad)
	if err := a.printJSON(map[string]string{"label": bad}); err != nil {
		t.Fatal(err)
	}
	check("a result", out.String(), `label x\u001b]0;`)
	check("JSON", out.String(), `"label": "x\u001b]0;title\u0007\u009b31m"`)
	a.say("stream %s", bad)
	for _, format := range []string{"json", "text"} {
		own := &app{stdout: a.stdout, stderr: a.stderr} // whose messages all take the log's form
		own.newLogger(LogConfig{Level: "info", Format: format}).Info("came", "key", bad)
		own.say("stream %s", bad)
	}
	check("messages", errOut.String(), `stream x\u001b]0;`)
	errOut.Reset()
	line := a.newLiveLine()
	line.show(bad, true)
	line.mode = "bar"
	line.show(bad, true)
	check("a line redrawn", errOut.String(), `x\u001b]0;title`)
	errOut.Reset()
	p := a.progress()
	p.report(1, 10, strings.Repeat("n", 200))
	if len(p.shown) != maxPhase {
		t.Errorf("%d characters of progress, want %d", len(p.shown), maxPhase)
	}
	p.report(1, 10, bad)
	p.start, p.last = p.start.Add(-time.Minute), p.last.Add(-time.Minute)
	p.report(2, 10, bad)
	check("progress", errOut.String(), `x\u001b]0;title`)
}

// A label as long as it may be leaves the table one.
func TestConfusionOfLongLabels(t *testing.T) {
	text := confusionText([]string{strings.Repeat("ä", 2<<20), "b"}, [][]int{{1, 2}, {3, 4}})
	if lines := strings.Split(text, "\n"); len(text) > 400 || len(lines) != 3 || strings.Contains(text, "BADWIDTH") || !strings.Contains(lines[1], "ä... ") {
		t.Errorf("%d bytes: %.400s", len(text), text)
	}
	if got := listText([]string{strings.Repeat("a", 100), "b"}); got != strings.Repeat("a", maxClassWidth-3)+"..., b" {
		t.Errorf("%q", got)
	}
	if got := listText(make([]string, 500)); !strings.HasSuffix(got, "... (500 in all)") {
		t.Errorf("%q", got)
	}
}

// A producer's key may hold escape sequences, for the server takes them: the
// stage's log, its JSON, the list of dead letters and the states show them.
func TestHostileKeys(t *testing.T) {
	archive, dir := importTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	must(t, "offline", "retrain", "--archive", archive, "--members", "1", "--units", "5", "--out", model)
	stage := startProgram(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "1")
	url := serverURL.FindString(stage.messages())
	const key = "x\x1b]0;pwned\a"
	onServer(t, url, func(js jetstream.JetStream) error {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "sensors." + key, Data: []byte("junk")})
		return err
	})
	await(t, url, 0, 1)
	for _, r := range []result{
		must(t, "deadletter", "list", "--nats-url", url),
		must(t, "deadletter", "list", "--nats-url", url, "--json"),
		exec(t, t.Context(), "state", "get", key, "--nats-url", url),
		stage.stop(t),
	} {
		text := r.out + r.errOut
		if strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(text), unicode.IsControl) {
			t.Errorf("control characters: %q", text)
		}
		if !strings.Contains(text, "pwned") {
			t.Errorf("the key is not shown: %q", text)
		}
	}
}
