package metrics

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const runbookURL = "https://github.com/eusn-stream/eusn-stream/blob/main/docs/runbook.md#"

// TestRunbook: each alert has a section in the runbook and links to it, each section has an alert,
// and describes the event, its meaning and the remedy. The first advice is never destructive.
func TestRunbook(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(read("../../docs/runbook.md"), "\n## ")[1:] {
		name, body, _ := strings.Cut(s, "\n")
		sections[name] = body
	}
	destroys := regexp.MustCompile(`(?i)\b(delete|remove|purge|rm|reset|restore|repair|drop|overwrite|force|kill|restart)\b`)
	listed := read("../../docs/metrics.md")
	alerts := map[string]bool{}
	for _, a := range strings.Split(read(filepath.Join(configs, "prometheus", "alerts.yaml")), "- alert: ")[1:] {
		name, rule, _ := strings.Cut(a, "\n")
		alerts[name] = true
		if !strings.Contains(rule, `runbook_url: "`+runbookURL+strings.ToLower(name)+`"`) {
			t.Errorf("%s does not name its section of the runbook", name)
		}
		if !strings.Contains(listed, "`"+name+"`") {
			t.Errorf("docs/metrics.md does not list %s", name)
		}
		body, ok := sections[name]
		if !ok {
			t.Errorf("docs/runbook.md has no section ## %s", name)
			continue
		}
		at := 0
		for _, part := range []string{"**Event.** ", "**Meaning.** ", "**Steps.**\n\n1. "} {
			i := strings.Index(body, part)
			if i < at {
				t.Errorf("%s: the section lacks %q, or has it in another order", name, part)
			}
			at = i + len(part)
		}
		first, _, _ := strings.Cut(body[min(at, len(body)):], "\n")
		if word := destroys.FindString(first); word != "" {
			t.Errorf("%s: the first advice says %q: it must destroy and interrupt nothing", name, word)
		}
	}
	for name := range sections {
		if !alerts[name] {
			t.Errorf("docs/runbook.md has a section %s, and there is no such alert", name)
		}
	}
}
