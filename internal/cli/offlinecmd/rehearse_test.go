package offlinecmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// A point of change has the time of its first prediction, and the channels by name; an accepted level has the time of the
// event.
func TestPrintChanges(t *testing.T) {
	at := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	r := &alarm.Rehearsal{Events: []alarm.Event{
		{Kind: alarm.RulesChanged, Time: at},
		{Kind: alarm.Raised, Rule: "new", Key: "pump 7", Since: at, Time: at.Add(time.Minute), Channels: []alarm.ChannelShare{{Channel: 1, Input: "level", Deviation: -7.25}, {Channel: 0, Input: "pace", Deviation: 3}}},
		{Kind: alarm.Cleared, Rule: "new", Key: "pump 7", Since: at, Time: at.Add(time.Hour), Accepted: 4.5},
		{Kind: alarm.Raised, Rule: "slow", Key: "pump 7", Since: at, Change: "up"},
		{Kind: alarm.Cleared, Rule: "slow", Key: "pump 7", Change: "up"},
		{Kind: alarm.Raised, Rule: "flat", Key: "pump 7", Since: at},
	}}
	const want = "changes    2026-01-05T00:00:00Z  new  pump 7  flow level -7.25, heat pace +3\n" +
		"           2026-01-05T01:00:00Z  new  pump 7  level accepted: novelty up to 4.5\n" +
		"           2026-01-05T00:00:00Z  slow  pump 7  up\n"
	var out bytes.Buffer
	printChanges(&cli.App{Stdout: &out}, []string{"heat", "flow"}, r)
	if out.String() != want {
		t.Errorf("%swant\n%s", &out, want)
	}
	for range mostChanges {
		r.Events = append(r.Events, r.Events[3])
	}
	out.Reset()
	if printChanges(&cli.App{Stdout: &out}, []string{"heat", "flow"}, r); strings.Count(out.String(), "\n") != mostChanges+1 || !strings.HasSuffix(out.String(), "           3 more: --json\n") {
		t.Errorf("%s", &out)
	}
	out.Reset()
	if printChanges(&cli.App{Stdout: &out}, nil, nil); out.Len() > 0 {
		t.Errorf("without rules: %s", &out)
	}
}
