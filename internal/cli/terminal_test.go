package cli_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// Whatever data and arguments bring along, the terminal gets no control
// character: not in results, JSON, messages, errors, logs or progress.
func TestNothingSteersTheTerminal(t *testing.T) {
	const bad = "x\x1b]0;title\a\u009b31m"
	check := func(what, text, mark string) {
		t.Helper()
		if !strings.Contains(text, mark) {
			t.Errorf("%s lacks %q:\n%q", what, mark, text)
		}
		if strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(text), unicode.IsControl) {
			t.Errorf("%s has control characters: %q", what, text)
		}
	}
	r := clitest.Exec(t, t.Context(), "model", "verify", bad)
	check("an error", r.ErrOut, `x\u001b]0;title\u0007\u009b31m`)
	r = clitest.Exec(t, t.Context(), "help", bad)
	check("a usage error", r.ErrOut, "no help on")

	var out, errOut bytes.Buffer
	a := &cli.App{Stdout: term.Cleaned{Writer: &out}, Stderr: term.Cleaned{Writer: &errOut}, ProgressMode: "plain"}
	a.Print("label %s", bad)
	if err := a.PrintJSON(map[string]string{"label": bad}); err != nil {
		t.Fatal(err)
	}
	check("a result", out.String(), `label x\u001b]0;`)
	check("JSON", out.String(), `"label": "x\u001b]0;title\u0007\u009b31m"`)
	a.Say("stream %s", bad)
	for _, format := range []string{"json", "text"} {
		own := &cli.App{Stdout: a.Stdout, Stderr: a.Stderr} // all messages of own take the log's form
		own.Logger("info", format).Info("came", "key", bad)
		own.Say("stream %s", bad)
	}
	check("messages", errOut.String(), `stream x\u001b]0;`)
}
