package integration

import (
	"strings"
	"testing"
)

// maxDocumentWords limits the words of all pages together.
const maxDocumentWords = 65000

// pageKinds are the kinds of pages, each with its budget of words for a page.
var pageKinds = []struct {
	kind  string
	words int
	pages string
}{
	{"start", 900, "README.md docs/README.md"},
	{"tutorial: one path to a result", 2000, "docs/quickstart.md docs/tutorial.md"},
	{"how-to: one task", 600, "docs/alarms.md docs/capacity.md docs/early.md docs/edge.md docs/explain.md docs/fieldbus.md docs/front-end.md docs/gateway.md " +
		"docs/go-live.md docs/gpu.md docs/groups.md docs/import.md docs/install.md docs/kubernetes.md docs/learn.md docs/models.md docs/nats.md docs/novelty.md docs/old-data.md " +
		"docs/operations.md docs/parquet.md docs/policies.md docs/quality.md docs/record.md docs/regression.md docs/second-job.md docs/secure.md " +
		"docs/services.md docs/sets.md docs/traces.md docs/watch.md UPGRADING.md"},
	{"plant: from public data to an alarm", 230, "docs/plants/bearings.md docs/plants/chemical-plant.md docs/plants/hydraulic-rig.md docs/plants/pump-bed.md docs/plants/turbofans.md"},
	{"on call: a fault or an alert", 2000, "docs/faults.md docs/runbook.md docs/status.md"},
	{"reference: tables to look up", 2000, "docs/alarm-rules.md docs/configuration.md docs/formats.md docs/licenses.md docs/metrics.md docs/page.md docs/reference.md docs/subjects.md " +
		"CHANGELOG.md SECURITY.md"},
	{"explanation: reasons and limits", 1200, "docs/concepts.md docs/decisions.md docs/durability.md docs/mixed-bank.md docs/verification.md"},
	{"results: measured figures", 4000, "docs/results.md"},
	{"contributing", 1500, "ARCHITECTURE.md CONTRIBUTING.md"},
}

// longPages are pages above the budget of their kind, with the figure of 2026-11-29
// rounded up to 50.
var longPages = map[string]limit{
	"docs/alarms.md":        {1000, "several tasks: rules, receivers, a second process, rights"},
	"docs/configuration.md": {5400, "a table of all keys, generated"},
	"docs/decisions.md":     {2950, "twenty decisions"},
	"docs/explain.md":       {800, "several tasks: predictions and states"},
	"docs/faults.md":        {2200, "a table of all messages of faults"},
	"docs/fieldbus.md":      {1650, "three protocols"},
	"docs/gateway.md":       {1650, "several tasks: devices, login, a broker, guarantees"},
	"docs/gpu.md":           {650, "build, check and limits"},
	"docs/install.md":       {750, "six systems"},
	"docs/learn.md":         {900, "several tasks: labels, learning, sums"},
	"docs/metrics.md":       {2200, "a table of all metrics"},
	"docs/mixed-bank.md":    {2200, "the definition of a bank"},
	"docs/models.md":        {850, "several tasks: publish, promote, shadow"},
	"docs/nats.md":          {1250, "a table of all permissions"},
	"docs/operations.md":    {1150, "small tasks, a section each"},
	"docs/reference.md":     {2400, "tables of all commands, columns, flags and limits"},
	"docs/results.md":       {6600, "a table of all measured figures"},
	"docs/runbook.md":       {2100, "a section for each alert"},
	"docs/secure.md":        {1300, "certificates, users, roles and listeners"},
	"docs/sets.md":          {900, "five statements about doubt"},
}

// TestWordsBudget checks that each page has a kind and at most the words of this kind.
func TestWordsBudget(t *testing.T) {
	docs := documents(t)
	lengths, total := ceilings("words", 0, longPages), 0
	for _, k := range pageKinds {
		lengths.common = k.words
		for name := range strings.FieldsSeq(k.pages) {
			text, exists := docs[name]
			if !exists {
				t.Errorf("the page %s of kind %q does not exist: delete its name", name, k.kind)
			}
			n := len(strings.Fields(text))
			lengths.compareFigure(t, name, n, nil)
			total += n
		}
	}
	lengths.unused(t)
	for name := range docs {
		if (!strings.Contains(name, "/") || strings.HasPrefix(name, "docs/")) && !lengths.seen[name] {
			t.Errorf("%s has no kind: add its name to pageKinds", name)
		}
	}
	if total > maxDocumentWords {
		t.Errorf("the pages have %d words, at most %d are allowed", total, maxDocumentWords)
	}
	t.Logf("%d words", total)
}
