package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
)

// Logs and messages have the texts for people, too.
func TestErrorTextOfLogs(t *testing.T) {
	err := fmt.Errorf("pipeline: job \"a\": %w", errors.New("codec: wrong"))
	const want = "job \"a\": wrong"
	var b bytes.Buffer
	a := &cli.App{Stderr: term.Cleaned{Writer: &b}}
	a.Logger("info", cli.FormatText).Info("came", "err", err, "count", 1)
	if got := b.String(); !strings.Contains(got, "err="+strconv.Quote(want)+" count=1") {
		t.Errorf("log line %s", got)
	}
	b.Reset()
	a.Say("warning: %v, %s", err, "codec: x")
	if got := b.String(); got != "warning: "+want+", codec: x\n" {
		t.Errorf("message %q", got)
	}
	b.Reset()
	a.LogAsJSON()
	a.Logger("info", cli.FormatJSON).Info("came", "err", err)
	a.Report(err)
	for line := range strings.Lines(b.String()) {
		var got struct{ Msg, Err string }
		if failed := json.Unmarshal([]byte(line), &got); failed != nil || got.Err != want && got.Msg != want {
			t.Errorf("%v in %s", failed, line)
		}
	}
}
