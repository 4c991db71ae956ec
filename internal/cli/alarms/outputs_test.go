package alarms

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/notify"
)

// newOutputs returns the configured outputs, one per address of an Alertmanager, and reports
// errors before anything starts.
func TestOutputs(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		n    int
		says string // part of the error; empty = none
	}{
		{`{webhook: ""}`, 0, ""},
		{"{webhook: http://h, mqtt: tcp://h:1883, mqtt_id: x, mqtt_retain: true, alertmanager: 'http://a:9093,https://b/am', alertmanager_labels: {severity: page, r/team: x}}", 4, ""},
		{"{alertmanager: http://a:9093/api/v2/alerts}", 0, "without /api/v2/alerts"},
		{"{alertmanager: http://a:9093, alertmanager_labels: {key: x}}", 0, "want another name"},
		{"{mqtt: 'tcp://'}", 0, "mqtt"},
		{"{mqtt: tcp://h:1883, mqtt_prefix: a/}", 0, "prefix"},
		{"{mqtt: tcp://h:1883, mqtt_password: x}", 0, "mqtt_user"},
		{"{webhook: https://h, tls: {ca: nowhere.pem}}", 0, "alarms.tls"},
		{"{webhook: https://h, tls: {ca: " + empty + "}}", 0, "holds no certificate"},
	} {
		conf, err := config.Load("c.yaml", []byte("alarms: "+c.text+"\n"), nil, nil)
		var all []notify.Output
		if err == nil {
			all, err = newOutputs(conf.Alarms, "job", slog.New(slog.DiscardHandler))
		}
		switch {
		case c.says == "" && (err != nil || len(all) != c.n):
			t.Errorf("%s: %d outputs, want %d: %v", c.text, len(all), c.n, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want an error with %q", c.text, err, c.says)
		}
	}
}
