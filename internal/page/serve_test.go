package page

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// TestPageFile: the page is one file without external links, and allows only its own script.
func TestPageFile(t *testing.T) {
	if len(html) > 150_000 {
		t.Errorf("the page has %d bytes, want at most 150,000", len(html))
	}
	text := string(html)
	for _, url := range regexp.MustCompile(`[a-z]+://[^"'\s)]*`).FindAllString(text, -1) {
		if url != "http://www.w3.org/2000/svg" { // the name of SVG, which browsers do not load
			t.Errorf("the page names %s", url)
		}
	}
	for _, never := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", " style=", " onclick="} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %s: what comes from outside becomes text through el, styles are in its sheet", never)
		}
	}
	for _, directive := range []string{"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, directive) {
			t.Errorf("the policy lacks %s: %s", directive, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Count(text, "<script") != 1 || strings.Count(text, "<style") != 1 {
		t.Errorf("the policy %s, want no unsafe, and one script and one style sheet on the page", policy)
	}
	// A screen reader needs these roles and names; TestBrowserMachines checks them in a browser.
	for _, name := range []string{`<nav class="tabs" aria-label="Views">`, `role="group" aria-label="Show machines of one condition"`, `<label class="find" for="part">Find a machine<input id="part" type="search"`, `<table class="list" id="list" role="table" aria-labelledby="h-list">`, `<tbody id="rows-of-list" role="rowgroup">`,
		`aria-label="Groups of machines"`, `role="status" id="counts-aloud"`, `role="status" id="found-aloud"`, `role="status" id="aloud"`, `<span role="alert" id="stale-said">`, `setAttribute("aria-pressed"`, `setAttribute("aria-current", "page")`, `role: "columnheader", scope: "col"`, `class: "chart", role: "img", "aria-label": says`, `@media (prefers-reduced-motion: no-preference)`, `:focus-visible { outline:`} {
		if !strings.Contains(text, name) {
			t.Errorf("the page lacks %s", name)
		}
	}
	for _, id := range regexp.MustCompile(`aria-labelledby="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		for _, id := range strings.Fields(id[1]) {
			if !strings.Contains(text, ` id="`+id+`"`) {
				t.Errorf("aria-labelledby names %s, which the page does not have", id)
			}
		}
	}
	for _, landmark := range []string{`<html lang="en">`, "<header", "<main", "<footer", `class="skip"`, `role="status"`, "prefers-color-scheme: dark", "@media print"} {
		if !strings.Contains(text, landmark) {
			t.Errorf("the page lacks %s", landmark)
		}
	}
}

// TestState checks the page's data of a running stage.
func TestState(t *testing.T) {
	r := newRig(t)
	r.predictTimes("pump-3", 5)
	r.waitUntilCurrent()
	r.page.sampleCounters(time.Now())
	resp := r.get("/page/state")
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(string(body), "<>") {
		t.Errorf("the state has < or >, which JSON need not have: %.300s", body)
	}
	var s State
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}
	if s.Verdict.Level != "good" || !strings.HasPrefix(s.Verdict.Text, "4 partitions, up to date: last sample answered ") {
		t.Errorf("verdict %+v", s.Verdict)
	}
	if s.Totals.Predictions != 5 || s.Totals.Rows != 40 || len(s.Partitions) != 4 || len(s.Slowest) != 4 || len(s.Shards) != 2 || s.Version != "v1.2.3" || s.Job != "eusn" {
		t.Errorf("%+v", s)
	}
	if len(s.Marks) != 1 || s.Marks[0].Kind != "start" || s.Seconds == nil || s.Minutes == nil {
		t.Errorf("marks %+v, history %v", s.Marks, s.Seconds)
	}
	sum := uint64(0)
	for _, c := range s.Classes.Rows {
		sum += c.Before
	}
	if sum != 5 || len(s.Classes.Rows) != 3 {
		t.Errorf("classes %+v", s.Classes)
	}
	for _, shard := range s.Shards {
		if all := shard.Busy + shard.Waiting + shard.Idle; all < .99 || all > 1.01 {
			t.Errorf("shard %+v: the shares are %v together, want 1", shard, all)
		}
	}
	for path, want := range map[string]int{"/": 200, "/page/nothing": 404, "/page/stream": 400, "/page/stream?name=x": 503, "/page/machines?condition=odd": 400, "/page/machines?x=1": 400, "/page/machines": 200, "/page/samples?name=x": 400, "/page/samples?name=x&partition=0&from=1&until=2": 503, "/page/stream?name=%zz": 400, "/page/stream?name=a&name=b": 400} {
		if resp := r.get(path); resp.StatusCode != want || resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %s %v, want %d", path, resp.Status, resp.Header, want)
		}
	}
	if resp, err := http.Post(r.url+"/page/state", "text/plain", strings.NewReader("x")); err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v %v, want that the page only reads", resp.Status, err)
	}
}

// readEvent reads the next server-sent event: its name and its state.
func readEvent(t *testing.T, in *bufio.Scanner) (name string, s State) {
	t.Helper()
	for in.Scan() {
		if rest, ok := strings.CutPrefix(in.Text(), "event: "); ok {
			name = rest
		}
		if rest, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(rest), &s); err != nil {
				t.Fatal(err)
			}
			return name, s
		}
	}
	t.Fatalf("the events have ended: %v", in.Err())
	return "", s
}

// TestEvents: viewers receive the history once, then events. The number of viewers is limited; a
// viewer that does not read is dropped without effect on other viewers.
func TestEvents(t *testing.T) {
	r := newRig(t)
	resp := r.get("/page/events")
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
		t.Fatalf("Content-Type %s", got)
	}
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<22)
	if name, s := readEvent(t, in); name != "hello" || s.Seconds == nil {
		t.Errorf("first %s, history %v", name, s.Seconds)
	}
	if name, s := readEvent(t, in); name != "tick" || s.Seconds != nil || s.Job != "eusn" {
		t.Errorf("then %s, history %v", name, s.Seconds)
	}
	for range MostViewers - 1 {
		r.get("/page/events")
	}
	pipelinetest.Until(t, "all viewers", func() bool {
		r.page.viewers.mu.Lock()
		defer r.page.viewers.mu.Unlock()
		return len(r.page.viewers.all) == MostViewers
	})
	if resp := r.get("/page/events"); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %s, want that there are too many", resp.Status)
	}
	var slow viewers
	slow.all = map[*viewer]bool{}
	deaf, keen := slow.addViewer(), slow.addViewer()
	for i := range 3 * queued {
		slow.sendEvent(fmt.Append(nil, i))
		if got := <-keen.events; string(got) != fmt.Sprint(i) {
			t.Errorf("event %d is %s", i, got)
		}
	}
	n := 0
	for range deaf.events { // ends when the viewer is dropped
		n++
	}
	if n != queued || len(slow.all) != 1 {
		t.Errorf("a viewer that does not read got %d events, %d viewers are left", n, len(slow.all))
	}
	r.page.Close() // ends the events
	for in.Scan() {
	}
	if in.Err() != nil {
		t.Errorf("at the end: %v", in.Err())
	}
}

// FuzzParseQuery: any query gives a name within limits or an error, and the name is quoted safely
// for a shell.
func FuzzParseQuery(f *testing.F) {
	for _, s := range []string{"name=pump-3", "name=", "name=a&name=b", "name=%zz", "name=%ff", "x=1", "name=%3Cimg%3E%27%22", "name=a;b", "name=%0a%1b[2J", "name=%E2%80%AEgnp", "name=" + strings.Repeat("x", 600)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		name, err := parseQuery(query, "name")
		if err != nil {
			if name != "" || strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%q, %v", name, err)
			}
			return
		}
		if name == "" || len(name) > mostName || strings.ToValidUTF8(name, "?") != name {
			t.Errorf("a name %q", name)
		}
		word := quoteShell(name)
		if inner, ok := strings.CutPrefix(word, "'"); ok {
			if back := strings.ReplaceAll(strings.TrimSuffix(inner, "'"), `'\''`, "'"); back != name {
				t.Errorf("%q is quoted %s", name, word)
			}
		} else if !strings.HasPrefix(word, "$'") && word != name || strings.ContainsFunc(word, names.IsControl) {
			t.Errorf("%q is quoted %s", name, word)
		}
	})
}
