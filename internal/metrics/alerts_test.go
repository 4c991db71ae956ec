package metrics

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// TestAlerts: Prometheus accepts the alert rules, and each rule is tested to fire and not to fire.
func TestAlerts(t *testing.T) {
	const dir = "../../configs/prometheus"
	read := func(name string) string { // otherwise the test cache would miss changes
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rules, tests := read("alerts.yaml"), read("alerts_test.yaml")
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		silent := strings.Count(tests, "alertname: "+m[1]+"}")
		fires := regexp.MustCompile(`alertname: ` + m[1] + `\n\s+exp_alerts:`).MatchString(tests)
		if silent == 0 || !fires {
			t.Errorf("%s: %d tests in which it is silent, one in which it fires: %v; want both", m[1], silent, fires)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		parts.Absent(t, "promtool", "%v (Debian: apt-get install prometheus)", err)
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml", "rules.yaml"}, {"check", "config", "prometheus.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		c := exec.Command(promtool, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
