package root_test

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// Old names work for a release, say the new one, and are in no help.
func TestOldNames(t *testing.T) {
	for old, now := range map[string]string{
		"offline bench":     "eusn-stream offline paper (default results file: paper.jsonl)",
		"deadletter replay": "eusn-stream deadletter resend",
	} {
		words := strings.Fields(old)
		args := append(words, "none.parquet") // no archive, and no number of a dead letter
		if r := clitest.Exec(t, t.Context(), args...); r.Code != cli.ExitFailure && r.Code != cli.ExitUsage || !strings.Contains(r.ErrOut, "note: eusn-stream "+old+" is now "+now) {
			t.Errorf("%s: exit code %d, messages:\n%s", old, r.Code, r.ErrOut)
		}
		if r := clitest.Must(t, words[0], "--help"); strings.Contains(r.Out, "\n  "+words[1]+" ") {
			t.Errorf("help of %s names %s:\n%s", words[0], words[1], r.Out)
		}
	}
}
