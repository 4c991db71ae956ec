package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/testing/browser"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// newPumpRig returns a rig with a healthy class and ranges of the channels: the value 50 is out of
// range.
func newPumpRig(t testing.TB) *rig {
	r := newRigOf(t, func(m *reservoir.Model) {
		for i := range m.Readouts[0].Classes {
			m.Readouts[0].Classes[i] = []string{"healthy", evilClass, "ok"}[i]
		}
		m.Training.Inputs = []reservoir.InputRange{{Values: 1000, Min: -3, Max: 3, LongestRun: 8}, {Values: 1000, Min: -3, Max: 3, LongestRun: 8}}
	})
	r.page.Attach(&Job{JS: r.js, Report: r.newReport()})
	return r
}

// publishEvent publishes an event to the alarm log.
func (r *rig) publishEvent(e alarm.Event) {
	r.Helper()
	data, err := e.Marshal()
	if err == nil {
		_, err = r.js.PublishMsg(r.Context(), &nats.Msg{Subject: "eusn.alarm." + e.Rule + "." + alarm.Token(e.Key), Data: data})
	}
	if err != nil {
		r.Fatal(err)
	}
}

// decode decodes an answer of the page.
func (r *rig) decode(path string, into any) {
	r.Helper()
	resp := r.get(path)
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		r.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
}

// TestFollow: the first list has the existing machines of the whole job, and then the page follows
// predictions and alarms; without viewers the page stops reading, and later continues.
func TestFollow(t *testing.T) {
	r := newPumpRig(t)
	for i := range 20 {
		r.predictTimes(fmt.Sprintf("hall.pump-%d", i), 1)
	}
	if err := watch.EnsureStreams(t.Context(), r.js, "eusn", 1); err != nil {
		t.Fatal(err)
	}
	r.publishEvent(alarm.Event{Number: 1, Kind: alarm.Raised, Alarm: 1, ID: "a", Rule: "hot", Key: "hall.pump-3", Time: time.Now()})
	var l List
	r.decode("/page/machines?condition=all", &l)
	if l.Plant.Counts.All != 20 || !l.Plant.Read || l.Plant.Since == 0 || l.Plant.Why != "" || !l.Plant.Named {
		t.Errorf("the first list: %+v", l.Plant)
	}
	await := func(what string, ok func(l *List) bool) {
		t.Helper()
		pipelinetest.Until(t, what, func() bool {
			var l List
			r.decode("/page/machines?condition=all", &l)
			return ok(&l)
		})
	}
	await("alarm", func(l *List) bool {
		return l.Rows[0].Name == "hall.pump-3" && l.Rows[0].Condition == "not-normal" && l.Rows[0].Alarms[0].Rule == "hot"
	})
	r.predictTimes("hall.pump-99", 1)
	await("further machine", func(l *List) bool { return l.Plant.Counts.All == 21 })

	// The following ends 10 minutes after the last viewer.
	r.page.mu.Lock()
	r.page.lastViewed = time.Now().Add(-followedFor)
	r.page.mu.Unlock()
	time.Sleep(time.Second) // both followers check four times per second
	r.predictTimes("hall.pump-100", 1)
	time.Sleep(time.Second / 2)
	if p := r.page.machines.summarize(time.Now(), 0); p.Counts.All != 21 {
		t.Errorf("%d machines, want that nobody reads without viewers", p.Counts.All)
	}
	await("machine of the time without viewers", func(l *List) bool { return l.Plant.Counts.All == 22 })
	r.page.Detach()
	time.Sleep(time.Second)
	r.page.Attach(&Job{JS: r.js})
	r.predictTimes("hall.pump-101", 1)
	await("machine after another connection", func(l *List) bool { return l.Plant.Counts.All == 23 })
}

// TestSilentBefore: a machine that was silent before the predictions that the page reads is known
// from the table of the alarm process, and is never normal.
func TestSilentBefore(t *testing.T) {
	r := newPumpRig(t)
	if err := watch.EnsureStreams(t.Context(), r.js, "eusn", 1); err != nil {
		t.Fatal(err)
	}
	bucket, err := r.js.KeyValue(t.Context(), "EUSN-LATEST")
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]alarm.Latest{
		"old":   {Stream: "old", Class: "healthy", Flags: "flat|held", Seen: time.Now().Add(-2 * time.Hour), Position: 5},
		"late":  {Stream: "late", Class: "healthy", Seen: time.Now().Add(-2 * time.Hour), Position: 500},
		"alive": {Stream: "alive", Class: "healthy", Seen: time.Now(), Position: 5},
	} {
		data, err := json.Marshal(l)
		if err == nil {
			_, err = bucket.Put(t.Context(), alarm.Token(name), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.page.readSilent(t.Context(), &Job{JS: r.js}, 100, time.Now())
	rows := r.page.machines.list(query{condition: everyone}, time.Now(), 0).Rows
	if len(rows) != 1 || rows[0].Name != "old" || rows[0].Condition != "silent" || rows[0].Flags != "held|flat" || rows[0].Class != "healthy" {
		t.Errorf("%+v", rows)
	}
	// The next prediction ends the silence, and the silence is not usual for the machine.
	r.page.machines.predict("old", 0, 0, time.Now())
	if m := r.page.machines.all["old"]; m.silentAfter() != silentAlone || m.shows != Normal {
		t.Errorf("after its return: silent after %v, %s", m.silentAfter(), conditionNames[m.shows])
	}
}

// TestSamples: the samples of a time span are the published values; a span with too many is
// shortened.
func TestSamples(t *testing.T) {
	r := newPumpRig(t)
	began := time.Now().Add(-time.Second)
	r.predictTimes("hall.pump-1", 10)
	r.publishSequence("hall.pump-2", 50)
	crowd := pipelinetest.Crowd(3) // several streams in a message
	m := nats.NewMsg("sensors.gateway")
	m.Data = crowd.Payload(t)
	for name, values := range crowd.Headers() {
		m.Header[name] = values
	}
	if _, err := r.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Second)
	read := func(name string, part int, from, until time.Time) (s Samples) {
		t.Helper()
		r.decode(fmt.Sprintf("/page/samples?name=%s&partition=%d&from=%d&until=%d", url.QueryEscape(name), part, from.UnixMilli(), until.UnixMilli()), &s)
		return s
	}
	s := read("hall.pump-1", -1, began, end)
	low, high := float32(0), float32(0)
	for _, v := range s.Channels[0].Low {
		if v != nil {
			low = min(low, *v)
		}
	}
	for _, v := range s.Channels[0].High {
		if v != nil {
			high = max(high, *v)
		}
	}
	if s.Rows != 80 || len(s.Channels) != len(r.model.Channels) || low != -2 || high != 2 || s.Cut || s.Bad != 0 {
		t.Errorf("pump-1: %d samples of %d channels from %v to %v", s.Rows, len(s.Channels), low, high)
	}
	if s := read("hall.pump-1", -1, began.Add(-time.Hour), began); s.Rows != 0 {
		t.Errorf("an hour earlier: %d samples", s.Rows)
	}
	if s := read("pump", 0, began, end); s.Rows != 0 {
		t.Errorf("a stream that does not exist: %d samples", s.Rows)
	}
	if s := read("> *", -1, began, end); s.Rows != 0 {
		t.Errorf("a name that is a wildcard: %d samples", s.Rows)
	}
	found := 0
	for part := range 4 {
		found += read(crowd.Batch.Keys[1], part, began, end).Rows
	}
	if want := len(slices.DeleteFunc(slices.Clone(crowd.Batch.Key), func(k int32) bool { return k != 1 })); found != want || want == 0 {
		t.Errorf("a stream among others in messages: %d samples, want %d", found, want)
	}
}

// TestBrowserDeadSensor: a machine whose sensor dies is shown by its flags, on the first screen and
// on its own view, with its samples, alarms and labels; the class is never shown as its condition.
func TestBrowserDeadSensor(t *testing.T) {
	b := browser.Start(t)
	r := newPumpRig(t)
	for i := range 8 {
		for range 12 {
			r.predictTimes(fmt.Sprintf("hall.pump-%d", i), 1)
		}
	}
	if err := watch.EnsureStreams(t.Context(), r.js, "eusn", 1); err != nil {
		t.Fatal(err)
	}
	b.Open(r.url + "/")
	b.AwaitTrue("all are normal", `document.querySelector("[data-condition=normal] b").textContent === "8" && document.getElementById("empty").textContent.includes("No machine needs attention")`)
	n := r.counters.Stats().Predictions
	for range 6 {
		r.publishSequence("hall.pump-3", 50)
		time.Sleep(200 * time.Millisecond)
	}
	r.waitForPredictions(n + 6)
	r.publishEvent(alarm.Event{Number: 1, Kind: alarm.Raised, Alarm: 1, ID: "a", Rule: "sensor", Key: "hall.pump-3", Time: time.Now()})
	if _, err := labels.Add(t.Context(), r.js, "eusn", labels.Label{Stream: "hall.pump-3", From: time.Now().Add(-time.Minute).UnixNano(), To: time.Now().UnixNano(), Class: evilClass, Who: "anna", When: time.Now()}); err != nil {
		t.Fatal(err)
	}
	b.AwaitTrue("dead sensor", `document.querySelectorAll("#rows-of-list tr").length === 1 && document.querySelector("#rows-of-list tr").innerText.replace(/\s+/g, " ").startsWith("hall.pump-3 Not trusted out-of-range (the model names")`)
	b.AwaitTrue("its alarm", `document.querySelector("#alarms a") && document.querySelector("#rows-of-list tr").innerText.includes("sensor")`)
	if got := b.EvalText(`document.querySelectorAll("#rows-of-list .badge.normal").length + " " + document.querySelector("[data-condition='not-trusted'] b").textContent + " " + document.querySelector("[data-condition=normal] b").textContent`); got != "0 1 7" {
		t.Errorf("the counts: %s", got)
	}
	savePictures(b, "first")
	b.Eval(`document.querySelector("#alarms a").click()`, nil)
	b.AwaitTrue("flags first", `document.querySelector("#found dd").innerText.startsWith("? Not trusted out-of-range") || document.querySelector("#found dd").innerText.startsWith("Not trusted out-of-range")`)
	b.AwaitTrue("its alarm, its label and what it looked like before", `document.getElementById("past").innerText.includes("sensor") && document.getElementById("given").innerText.includes("<img src=x") && document.querySelector("#traces path.past")`)
	if got := b.EvalText(`document.querySelectorAll("#traces rect.c2").length > 0 && document.querySelectorAll("#traces circle.c2").length === 6`); got != "true" {
		t.Errorf("the flags on the time axis: %s", got)
	}
	if got := b.EvalText(`document.getElementById("found-aloud").textContent`); got != "hall.pump-3: Not trusted, out-of-range" {
		t.Errorf("a screen reader hears %q", got)
	}
	if lines := b.AccessibleLines(); !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "image 18 predictions; the table below") }) || !slices.Contains(lines, "table Predictions") && !slices.Contains(lines, "group Predictions") {
		t.Errorf("a screen reader has %q", lines)
	}
	savePictures(b, "machine")

	// The view is refreshed while a person reads it: the focus stays.
	b.Eval(`document.getElementById("explain").focus()`, nil)
	r.predictTimes("hall.pump-3", 1)
	b.Eval(`document.getElementById("refresh").click()`, nil)
	b.AwaitTrue("a newer prediction", `document.getElementById("found-said").textContent.includes("19 predictions")`)
	if got := b.EvalText(`document.activeElement.id`); got != "explain" {
		t.Errorf("the focus is on %q, want the command", got)
	}
	b.Eval(`location.hash = "software"`, nil)
	b.AwaitTrue("software", `document.querySelector("#rows svg")`)
	savePictures(b, "software")
	for _, said := range b.ConsoleLines() {
		t.Errorf("the browser's console has %s", said)
	}
}
