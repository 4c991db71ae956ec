package alarms

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
)

// A line for people has exactly the values of the event.
func TestLine(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 7, 412e6, time.UTC)
	for _, c := range []struct {
		e    alarm.Event
		want string
	}{
		{alarm.Event{Kind: alarm.Raised, Rule: "rub", Key: "pump 7", Class: "rub", Evidence: alarm.Evidence{Probability: .9341}}, `raised  rub  "pump 7"  rub  0.934`},
		{
			alarm.Event{Kind: alarm.Cleared, Rule: "life", Key: "a", Class: "remaining", Evidence: alarm.Evidence{Estimate: &alarm.Estimate{Value: 118.25, Low: 96.5, High: 131}}},
			"cleared  life  a  remaining  118.25 [96.5, 131]",
		},
		{alarm.Event{Kind: alarm.Raised, Rule: "new", Key: "a", Class: "ok", Evidence: alarm.Evidence{Novelty: 3, NoveltyP: .00123}}, "raised  new  a  ok  (novelty p 0.00123)"},
		{alarm.Event{Kind: alarm.Raised, Rule: "new", Key: "a", Channels: []alarm.ChannelShare{{Channel: 2, Share: .812, Input: "level", Deviation: 7.25}}}, "raised  new  a  (channel 2: 81 % (level +7.25))"},
		{alarm.Event{Kind: alarm.Raised, Rule: "new", Key: "a", Replaces: 42, Evidence: alarm.Evidence{Novelty: 6.5, NoveltyP: .00123}}, "raised  new  a  (novelty p 0.00123)  (novelty 6.5, worse than alarm 42)"},
		{alarm.Event{Kind: alarm.Cleared, Rule: "new", Key: "a", Accepted: 4.25}, "cleared  new  a  (level accepted: novelty up to 4.25)"},
		{alarm.Event{Kind: alarm.Acknowledged, Rule: "dead", Key: "a", Who: "anna"}, "acknowledged  dead  a  (anna)"},
		{alarm.Event{Kind: alarm.RulesChanged, Rules: map[string]string{"a": "b"}, Who: "anna"}, "rules  1 rules by anna"},
	} {
		c.e.Time = at
		if got := formatEvent(&c.e); got != "2026-01-31T12:00:07.412Z  "+c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
