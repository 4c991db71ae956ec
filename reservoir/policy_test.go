package reservoir

import (
	"strings"
	"testing"
	"time"
)

func TestPolicyRefusals(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		says   string // empty: accepted
		states int
	}{
		{Policy{Kind: Marked}, "", 1},
		{Policy{Kind: Marked, Early: 10}, "", 1},
		{Policy{Kind: Window, Length: 12, Hop: 4}, "", 3},
		{Policy{Kind: Window, Length: MaxPhases, Hop: 1}, "", MaxPhases},
		{Policy{Kind: Count, Length: 1}, "", 1},
		{Policy{Kind: Gap, Gap: time.Nanosecond}, "", 1},
		{Policy{Kind: Endless, Early: 1}, "", 1},
		{Policy{}, `policy ""`, 0},
		{Policy{Kind: "sometimes"}, `policy "sometimes"`, 0},
		{Policy{Kind: Window, Length: 12}, "hop 0", 0},
		{Policy{Kind: Window, Hop: 4}, "length 0", 0},
		{Policy{Kind: Gap}, "gap 0s", 0},
		{Policy{Kind: Window, Length: 12, Hop: 5}, "not a multiple", 0},
		{Policy{Kind: Window, Length: MaxPhases + 1, Hop: 1}, "at most 256", 0},
		{Policy{Kind: Count}, "length 0", 0},
		{Policy{Kind: Gap, Gap: -time.Second}, "gap -1s", 0},
		{Policy{Kind: Endless}, "no other prediction", 0},
		{Policy{Kind: Marked, Early: -1}, "early = -1", 0},
	} {
		err := c.policy.Validate()
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%+v: %v", c.policy, err)
		case c.says == "" && c.policy.States() != c.states:
			t.Errorf("%+v needs %d states, want %d", c.policy, c.policy.States(), c.states)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%+v: %v, want an error with %q", c.policy, err, c.says)
		}
	}
}
