package page

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/testing/browser"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// newPlantPage starts a page with n machines, each with a prediction per second, without a stage. Machines 1,
// 101, ... are worn, 2, 202, ... have a flat sensor, and machine 3 is silent.
func newPlantPage(t testing.TB, n int) (p *Page, url string) {
	t.Helper()
	p = Start(Options{Counters: new(pipeline.Counters), Job: "eusn", Version: "v1.2.3"})
	web := httptest.NewServer(p)
	t.Cleanup(func() {
		p.Close()
		web.Close()
	})
	p.machines.whole = true
	add := func(i int, at time.Time) {
		o := newOutput(uint64(i+1), n, at)
		for k := range o.Predictions {
			pr := &o.Predictions[k]
			pr.Probability -= float32((7*k+13*i)%11) / 40
			if i < 20 && pr.Class == 1 {
				pr.Class = 0
			}
		}
		if i == 0 {
			o.Stored = at.Add(-time.Hour)
		} else {
			o.Predictions = append(o.Predictions[:3], o.Predictions[4:]...)
		}
		p.machines.addOutput(&o)
	}
	for i := range keptPoints {
		add(i, time.Now().Add(time.Duration(i-keptPoints)*time.Second))
	}
	live := time.NewTicker(time.Second)
	ended := make(chan struct{})
	t.Cleanup(func() { live.Stop(); close(ended) })
	go func() {
		for i := keptPoints; ; i++ {
			select {
			case <-ended:
				return
			case at := <-live.C:
				add(i, at)
			}
		}
	}()
	p.machines.finishReading()
	return p, web.URL
}

// TestBrowserMachines tests the first screen with 10,000 machines: counts, the list of those that
// need attention, search, groups and pages by keyboard, and names as text.
func TestBrowserMachines(t *testing.T) {
	b := browser.Start(t)
	p, url := newPlantPage(t, 10_000)
	for i, name := range []string{evilStream, turnedStream, "hall1.<b>x</b>.p"} {
		p.machines.addOutput(&consumer.Output{Seq: uint64(100 + i), Stored: time.Now(), Meta: codec.PredictionMeta{Labels: []string{"healthy", evilClass}}, Predictions: []codec.Prediction{{Stream: name, Answer: outcome.Answer{Class: 1, Probability: .5}}}})
	}
	p.machines.addEvent(&alarm.Event{Number: 1, Kind: alarm.Raised, Rule: "hot", Key: "hall0.line0.pump-0", Time: time.Now()})
	b.Open(url + "/")
	b.AwaitTrue("rows", `document.querySelectorAll("#rows-of-list tr").length === 50`)
	tile := func(condition string) string {
		return b.EvalText(`document.querySelector("[data-condition='` + condition + `'] b").textContent`)
	}
	b.AwaitTrue("counts", `document.querySelector("[data-condition=all] b").textContent === "10,003"`)
	if got := fmt.Sprint(tile("not-normal"), " ", tile("not-trusted"), " ", tile("normal")); got != "104 50 9,848" {
		t.Errorf("the counts are %s", got)
	}
	if got := b.EvalText(`document.querySelector("#rows-of-list tr").innerText.replace(/\s+/g, " ")`); !strings.HasPrefix(got, "hall0.line0.pump-0 Not normal healthy,") || !strings.Contains(got, "hot") {
		t.Errorf("the first row is %s, want the machine with an open alarm", got)
	}
	if got := b.EvalText(`document.getElementById("rows-of-list").innerText.includes("<img src=x onerror=") + " " + document.querySelectorAll("img, main script, iframe, #plant b b, td svg [onload]").length + " " + typeof harm + " " + document.body.innerText.includes("\u202e")`); got != "true 0 undefined false" {
		t.Errorf("names became HTML: %s", got)
	}
	b.AwaitTrue("counts that are read aloud", `document.getElementById("counts-aloud").textContent.startsWith("10,003 machines: 104 not normal")`)

	// A screen reader has the counts, the search and the rows by role and name, and Tab reaches every
	// control, with a visible focus.
	lines := b.AccessibleLines()
	for _, want := range []string{"navigation Views", "link Machines", "link Software", "button 104 Not normal", "button 50 Not trusted", "button 9,848 Normal", "searchbox Find a machine", "table Machines that need attention", "columnheader Machine", "rowheader hall0.line0.pump-0", "cell ✕ Not normal healthy,", "link hall1.line1.pump-1", "link group hall2: 50 of 2,000 need attention", "button Next"} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("a screen reader has no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("it has %q", slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "Text") }))
	}
	b.Eval(`document.activeElement.blur()`, nil)
	var missed []string
	b.Eval(`[...document.querySelectorAll("a, button:not(:disabled), input, [tabindex='0']")].filter(e => e.checkVisibility()).forEach(e => e.dataset.missed = "1")`, nil)
	for ended := ""; ended != "true"; {
		b.PressKey("Tab")
		ended = b.EvalText(`(() => { const e = document.activeElement; if (e === document.body || !e.dataset.missed) return true; if (getComputedStyle(e).outlineStyle === "solid") delete e.dataset.missed; else e.dataset.missed = "without a visible focus"; return false })()`)
	}
	if b.Eval(`[...document.querySelectorAll("[data-missed]")].filter(e => e.checkVisibility()).map(e => e.textContent + e.id + " " + e.dataset.missed)`, &missed); len(missed) > 0 {
		t.Errorf("Tab does not reach %q", missed)
	}
	press := func(key, want string) {
		t.Helper()
		b.PressKey(key)
		b.AwaitTrue(want+" after "+key, `(document.activeElement.dataset.condition || document.activeElement.id || document.activeElement.textContent) === `+quoteJS(want))
	}
	b.Eval(`document.getElementById("to-plant").focus()`, nil)
	press("ArrowRight", "to-software")
	b.Eval(`document.querySelector("[data-condition='not-normal']").focus()`, nil)
	press("ArrowRight", "not-trusted")
	b.Eval(`document.getElementById("part").focus()`, nil)
	press("ArrowDown", "hall0.line0.pump-0")
	press("ArrowDown", b.EvalText(`document.querySelectorAll("#rows-of-list .name a")[1].textContent`))
	press("ArrowUp", "hall0.line0.pump-0")

	// A dead sensor is never shown as normal: the flag comes first, and the class is marked.
	b.Eval(`document.querySelector("[data-condition='not-trusted']").focus()`, nil)
	b.PressKey("Enter")
	b.AwaitTrue("machines with flags", `document.getElementById("h-list").textContent.includes("do not trust")`)
	b.AwaitTrue("flags first", `[...document.querySelectorAll("#rows-of-list tr")].every(r => r.children[1].innerText.startsWith("Not trusted") && r.children[1].innerText.indexOf("flat") < r.children[1].innerText.indexOf("healthy"))`)
	if got := b.EvalText(`document.querySelector("[data-condition='not-trusted']").getAttribute("aria-pressed") + " " + document.querySelectorAll("#rows-of-list .badge.normal, #rows-of-list td:last-child .c0").length + " " + document.activeElement.dataset.condition`); got != "true 0 not-trusted" {
		t.Errorf("the machines with flags: %s", got)
	}

	// Search while typing, and open a machine by keyboard.
	b.Eval(`document.querySelector("[data-condition=all]").click()`, nil)
	b.Eval(`document.getElementById("part").focus()`, nil)
	b.TypeText("PUMP-777")
	b.AwaitTrue("matches", `document.querySelectorAll("#rows-of-list tr").length === 11 && document.querySelector("#rows-of-list a").textContent.includes("pump-777")`)
	b.TypeText("x")
	b.AwaitTrue("advice", `document.getElementById("empty").textContent.includes("in its name") && document.querySelector("#empty a")`)
	b.Eval(`document.getElementById("part").value = ""`, nil)
	b.TypeText("pump-7771")
	b.AwaitTrue("one match", `document.querySelectorAll("#rows-of-list tr").length === 1`)
	b.PressKey("Enter")
	b.AwaitTrue("machine", `location.hash === "#machine=hall1.line21.pump-7771" && document.activeElement.id === "h-machine"`)
	b.PressKey("Escape")
	b.AwaitTrue("list with the focus on the machine", `!document.getElementById("plant").hidden && document.activeElement.textContent === "hall1.line21.pump-7771"`)

	// Groups, and pages within a group.
	b.PressKey("Escape")
	b.AwaitTrue("groups", `document.querySelectorAll("#groups a").length === 5 && document.getElementById("pages").textContent === "1 to 50 of 10,003"`)
	b.Eval(`document.querySelector("#groups a[href*=hall2]").click()`, nil)
	b.AwaitTrue("lines", `document.querySelectorAll("#groups a").length === 10 && document.getElementById("path").textContent === "All groups › hall2"`)
	b.AwaitTrue("pages", `document.getElementById("pages").textContent === "1 to 50 of 2,000"`)
	b.Eval(`document.getElementById("next").focus()`, nil)
	b.PressKey("Enter")
	b.AwaitTrue("second page", `document.getElementById("pages").textContent === "51 to 100 of 2,000" && document.activeElement.id === "next"`)
	b.Eval(`document.querySelector("#path a").click()`, nil)

	b.Eval(`location.hash = ""`, nil)
	b.AwaitTrue("first screen", `document.getElementById("h-list").textContent === "Machines that need attention"`)
	for _, width := range []int{360, 480, 800, 1100, 1440} {
		b.Size(width, 800, false, nil)
		b.AwaitTrue("page that fits", `document.documentElement.scrollWidth <= innerWidth`)
	}
	if unnamed := b.EvalText(`[...document.querySelectorAll("button, input, [role=group], [role=img], section, nav")].filter(e => !(e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") || "").split(" ").every(id => id && document.getElementById(id)) || e.textContent.trim() || (e.labels && e.labels.length))).map(e => e.outerHTML).join()`); unnamed != "" {
		t.Errorf("without a name: %s", unnamed)
	}
	savePictures(b, "plant")
	for _, said := range b.ConsoleLines() {
		if !strings.Contains(said, "status of 503") { // a machine of this page has no server
			t.Errorf("the browser's console has %s", said)
		}
	}
}

// savePictures writes pictures of the present view: wide, narrow and dark.
func savePictures(b *browser.Browser, name string) {
	dir := os.Getenv("EUSN_PAGE_PICTURES")
	if dir == "" {
		return
	}
	for _, v := range []struct {
		name  string
		width int
		theme string
	}{{"wide", 1440, "light"}, {"phone", 390, "light"}, {"dark", 1100, "dark"}} {
		b.Size(v.width, 900, false, map[string]string{"prefers-color-scheme": v.theme})
		time.Sleep(time.Second) // charts are redrawn for the width
		b.SavePicture(filepath.Join(dir, name+"-"+v.name+".png"))
	}
}
