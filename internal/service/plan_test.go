package service

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	whole, err := filepath.Abs("stage.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, args string
		want, says string
	}{
		{"", "run -c WHOLE", "eusn-stream", ""},
		{"", "gateway --config=WHOLE --mqtt-listen 127.0.0.1:1883", "eusn-stream-gateway", ""},
		{"", "alarms run -c WHOLE", "eusn-stream-alarms", ""},
		{"line-7", "run --model WHOLE", "line-7", ""},
		{"", "", "", "after --"},
		{"", "alarms list", "", `"alarms list" cannot be a service`},
		{"", "demo", "", `"demo" cannot be a service`},
		{`a\b`, "run", "", "service name"},
		{strings.Repeat("a", 81), "run", "", "service name"},
		{"", "run -c stage.yaml", "", "want an absolute path"},
		{"", "run --dir=data", "", "want an absolute path"},
		{"", "run -c", "", "want an absolute path"},
	} {
		p, err := Plan{Name: c.name, Args: strings.Fields(strings.ReplaceAll(c.args, "WHOLE", whole))}.Complete()
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", c.args, err, c.says)
			}
		case err != nil || p.Name != c.want || p.Account != `NT SERVICE\`+c.want:
			t.Errorf("%s: %+v, %v", c.args, p, err)
		}
	}
}
