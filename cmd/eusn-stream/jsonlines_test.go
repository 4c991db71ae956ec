package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// records wants every line of the messages to be a JSON object, and returns
// them.
func (r result) records(t *testing.T) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(r.errOut) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil || one["time"] == nil || one["level"] == nil || one["msg"] == "" {
			t.Errorf("on standard error: %q (%v)", line, err)
		}
		all = append(all, one)
	}
	return all
}

// With log.format json everything on standard error is a line of JSON: the log,
// what is said for people, errors and hints.
func TestMessagesAsJSON(t *testing.T) {
	archive, dir := importTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "1", "--units", "5")
	conf := write(t, filepath.Join(dir, "c.yaml"), "log: {format: json}\nstage: {partitions: 2}\nserver: {port: -1, dir: "+filepath.Join(dir, "data")+"}\n")
	stage := startProgram(t, "reading sensors.*", "run", "-c", conf, "--model", model, "--metrics", "127.0.0.1:0")
	url := serverURL.FindString(stage.messages())
	must(t, "replay", "-c", conf, "--archive", archive, "--nats-url", url).records(t)
	must(t, "partitions", "-c", conf, "--nats-url", url).records(t)
	r := stage.stop(t)
	r.want(t, exitOK)
	said := map[string]bool{}
	for _, one := range r.records(t) {
		msg := one["msg"].(string)
		said[msg[:min(7, len(msg))]] = true
	}
	for _, begin := range []string{"embedd", "metrics", "reading", "stage i", "stopped"} {
		found := false
		for s := range said {
			found = found || strings.HasPrefix(s, begin)
		}
		if !found {
			t.Errorf("no record begins with %q:\n%s", begin, r.errOut)
		}
	}

	for name, r := range map[string]result{
		"no such model": exec(t, t.Context(), "run", "-c", conf, "--model", filepath.Join(dir, "none")),
		"wrong value":   exec(t, t.Context(), "run", "-c", conf, "--model", model, "--non-finite", "maybe"),
		"no server":     exec(t, t.Context(), "doctor", "-c", conf, "--nats-url", "nats://127.0.0.1:1"),
	} {
		all := r.records(t)
		if last := all[len(all)-1]; last["level"] != "ERROR" || last["exit_code"] != float64(r.code) || last["try"] == nil || r.code == 0 {
			t.Errorf("%s: code %d, last record %v", name, r.code, last)
		}
	}

	t.Setenv("EUSN_LOG_FORMAT", "json")
	for _, args := range [][]string{
		{"bogus"}, {"run", "--bogus"}, {"run", "-c", filepath.Join(dir, "none")}, {"version", "--engine", "gpu-3xtf32"},
		{"offline", "retrain", "--archive", archive, "--out", model, "--members", "1", "--units", "5", "--progress", "plain"},
	} {
		if all := exec(t, t.Context(), args...).records(t); len(all) == 0 {
			t.Errorf("%v says nothing", args)
		}
	}
}
