package cases

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// outcome is the result of a case.
type outcome struct {
	happened string
	ok       bool
}

// newOutcome returns an outcome: a description of the result, and ok if the result is the
// required result.
func newOutcome(ok bool, format string, args ...any) outcome {
	return outcome{fmt.Sprintf(format, args...), ok}
}

// row is a line of the table at the end.
type row struct{ name, must, happened, verdict string }

var rows []row

// String returns the row of the table.
func (r row) String() string {
	const form = "%-26s %-12s %s\n"
	return fmt.Sprintf(form+form, r.name, r.verdict, "must be: "+r.must, "", "", "was:     "+shorten(r.happened))
}

// recordCase runs a case and records its row.
func recordCase(t *testing.T, name, must string, run func(t *testing.T) outcome) {
	t.Run(name, func(t *testing.T) {
		r := row{name, must, "the case could not be run", "FALLS SHORT"}
		defer func() {
			rows = append(rows, r)
			fmt.Print(r)
		}()
		o := run(t)
		r.happened = o.happened
		if o.ok {
			r.verdict = "ok"
			return
		}
		t.Errorf("%s: %s; must be: %s", name, o.happened, must)
	})
}

// shorten returns a text on one line, only the end of a long text.
func shorten(s string) string {
	const longest = 400
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > longest {
		return s[:longest/2] + " ... " + s[len(s)-longest/2:]
	}
	return s
}

func TestMain(m *testing.M) {
	code := m.Run()
	if len(rows) > 0 {
		fmt.Println()
	}
	short := 0
	for _, r := range rows {
		if r.verdict != "ok" {
			short++
		}
		fmt.Print(r)
	}
	if len(rows) > 0 {
		fmt.Printf("%d cases, %d fall short\n", len(rows), short)
	}
	os.Exit(code)
}
