package page

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/testing/browser"
)

// TestBrowser tests the page in a real browser: it shows a live stage, opens a machine by
// keyboard, shows a promotion, shows untrusted names as text, and fits every width.
func TestBrowser(t *testing.T) {
	b := browser.Start(t)
	r := newRig(t)
	r.predictTimes("pump-3", 30)
	r.predictTimes(evilStream, 3)
	r.predictTimes(turnedStream, 2)
	r.page.Attach(&Job{JS: r.js, Report: r.newReport()})
	b.Open(r.url + "/#software")
	b.AwaitTrue("verdict of the job", `document.getElementById("sentence").textContent.startsWith("4 partitions, 1 worker")`)
	b.AwaitTrue("classes, one of them hostile", `document.getElementById("mix").innerText.includes("<img src=x onerror=")`)
	if n := b.EvalText(`document.querySelectorAll("#map span.reading").length + " " + document.getElementById("map").getAttribute("aria-label")`); n != "4 Partitions: 4 reading" {
		t.Errorf("the map: %s", n)
	}

	// The first screen has one line about the software; a machine is opened by keyboard only.
	b.Eval(`location.hash = ""`, nil)
	b.AwaitTrue("verdict in one line", `document.getElementById("software").hidden && document.getElementById("line").innerText.includes("4 partitions, 1 worker")`)
	b.Eval(`document.getElementById("part").focus()`, nil)
	b.TypeText("pump-3")
	b.PressKey("Enter")
	b.AwaitTrue("predictions", `document.querySelectorAll("#predictions tbody tr").length === 16`)
	b.Eval(`document.querySelector("#predictions button").click()`, nil)
	b.AwaitTrue("all predictions", `document.querySelectorAll("#predictions tbody tr").length === 30 && document.querySelector("#predictions tbody").contains(document.activeElement)`)
	b.AwaitTrue("a trace of each channel", fmt.Sprintf(`document.querySelectorAll("#traces path.channel").length === %d && document.getElementById("traces").innerText.includes("240 samples")`, len(r.model.Channels)))
	if facts := b.EvalText(`document.getElementById("machine").innerText`); !strings.Contains(facts, "eusn-stream explain --job eusn --last --stream=pump-3") || b.EvalText(`document.querySelectorAll("#traces circle").length`) != "30" {
		t.Errorf("the stream: %s", facts)
	}
	b.Eval(`location.hash = "stream=" + encodeURIComponent(`+quoteJS(evilStream)+`)`, nil)
	b.AwaitTrue("hostile stream", `document.querySelectorAll("#predictions tbody tr").length === 3`)
	if got := b.EvalText(`document.getElementById("h-machine").textContent`); got != "Machine "+evilStream {
		t.Errorf("its name is shown as %s", got)
	}
	if n := b.EvalText(`document.querySelectorAll("img, #machine svg [onload], main script, iframe").length + " " + typeof harm + " " + document.title.includes("harm")`); n != "0 undefined false" {
		t.Errorf("names became HTML: %s", n)
	}

	// Control characters are shown as their numbers, and the command has the exact name.
	b.Eval(`location.hash = "machine=" + encodeURIComponent("\u202e7-pmup\x1b[2J")`, nil)
	b.AwaitTrue("turned stream", `document.querySelectorAll("#predictions tbody tr").length === 2`)
	if got := b.EvalText(`document.body.innerText.includes("\u202e") + " " + document.getElementById("h-machine").textContent + " " + document.getElementById("explain").textContent`); got != `false Machine \u202e7-pmup\u001b[2J eusn-stream explain --job eusn --last --stream=$'\xe2\x80\xae7-pmup\x1b[2J'` {
		t.Errorf("a name that turns the text: %s", got)
	}
	r.predictTimes(turnedStream, 1)
	b.Eval(`document.getElementById("refresh").focus()`, nil)
	b.PressKey("Enter")
	b.AwaitTrue("newer prediction of the same stream", `document.querySelectorAll("#predictions tbody tr").length === 3`)
	b.Eval(`location.hash = "software"`, nil)
	b.AwaitTrue("focus on the verdict", `document.activeElement.id === "verdict"`)

	// A promotion, and its mark on the time axis and in the list.
	models, err := registry.Open(t.Context(), r.js, "eusn")
	if err != nil {
		t.Fatal(err)
	}
	other, linear := *r.model, *r.model.Readouts[0]
	linear.Name, linear.Intercept = "better", append([]float32{1}, linear.Intercept[1:]...)
	other.Readouts = append(other.Readouts[:0:0], &linear)
	e, _, err := models.Publish(t.Context(), &other, "m", "", registry.Lineage{Who: "anna", When: registry.Now()})
	if err == nil {
		_, err = operate.Promote(t.Context(), r.js, "eusn", operate.PromoteOptions{Readout: e.Fingerprint, Now: true, Who: "anna"})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.AwaitTrue("mark of the promotion", `document.querySelector("#rows [data-mark=promotion]") && document.querySelector("#marks [data-mark=promotion]")`)
	if got := b.EvalText(`document.querySelector("#marks [data-mark=promotion]").textContent`); !strings.Contains(got, "promotion: ") || !strings.Contains(got, "by anna") {
		t.Errorf("the mark says %s", got)
	}

	// Marks are not sorted by time: a later addition still has its letter.
	if got := b.EvalText(`document.querySelector("#rows [data-mark=promotion] text").textContent`); got != "P" {
		t.Errorf("the letter of the promotion is %q", got)
	}

	// The curves are read by keys, and the other history is shown.
	b.Eval(`document.getElementById("rows").focus()`, nil)
	b.PressKey("ArrowLeft")
	b.AwaitTrue("value under the cursor", `!document.getElementById("rows-said").textContent.startsWith("Now") && document.querySelector("#rows .cursor")`)
	b.Eval(`document.getElementById("day").click()`, nil)
	b.AwaitTrue("24 hours", `document.getElementById("day").getAttribute("aria-pressed") === "true" && document.getElementById("quarter").getAttribute("aria-pressed") === "false"`)
	b.Eval(`document.getElementById("quarter").click()`, nil)

	for _, width := range []int{360, 480, 800, 1100, 1440} {
		b.Size(width, 800, false, nil)
		b.AwaitTrue("page that fits", `document.documentElement.scrollWidth <= innerWidth`)
	}
	// Every control and every scrolling region has an accessible name.
	if unnamed := b.EvalText(`[...document.querySelectorAll("button, input, [role=group], [role=img], section")].filter(e => !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim() || (e.labels && e.labels.length))).map(e => e.outerHTML).join()`); unnamed != "" {
		t.Errorf("without a name: %s", unnamed)
	}
	if dir := os.Getenv("EUSN_PAGE_PICTURES"); dir != "" {
		b.SavePicture(filepath.Join(dir, "test.png"))
	}
	for _, said := range b.ConsoleLines() {
		t.Errorf("the browser's console has %s", said)
	}

	// After the end of the stage's process the page shows this: old figures must not look new.
	r.page.Close()
	r.web.CloseClientConnections()
	r.web.Close()
	b.AwaitTrue("word that nothing is heard", `!document.getElementById("stale").hidden && document.getElementById("stale").textContent.includes("the values are old")`)
	// A screen reader announces this once: the elapsed time is outside the alert.
	if got := b.EvalText(`document.querySelectorAll("#stale[role=alert]").length + " " + /\d/.test(document.querySelector("#stale [role=alert]").textContent)`); got != "0 false" {
		t.Errorf("the word that nothing is heard is read aloud each second: %s", got)
	}
}

// TestContrast: the colors of both themes have the contrast of WCAG 2.2 level AA: 4.5 for text, 3
// for graphics.
func TestContrast(t *testing.T) {
	light, dark, ok := strings.Cut(string(html), "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("no dark theme")
	}
	colors := map[string]string{}
	for name, css := range map[string]string{"light": light, "dark": dark[:strings.Index(dark, "* {")]} {
		for _, m := range regexp.MustCompile(`--([a-z]+): (#[0-9a-f]+)`).FindAllStringSubmatch(css, -1) {
			colors[name+" "+m[1]] = m[2]
		}
	}
	luminance := func(color string) float64 {
		digits := color[1:]
		if len(digits) == 3 {
			digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
		}
		sum := 0.
		for i, weight := range []float64{.2126, .7152, .0722} {
			v, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
			if err != nil {
				t.Fatalf("color %q: %v", color, err)
			}
			c := float64(v) / 255
			if c <= .04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	text, drawn := []string{"text", "soft"}, []string{"good", "attention", "bad", "focus", "in", "answered", "lag", "before", "busy", "waiting"}
	for _, theme := range []string{"light", "dark"} {
		hold := func(want float64, fore, back string) {
			a, b := colors[theme+" "+fore], colors[theme+" "+back]
			if a == "" || b == "" {
				t.Fatalf("%s: no color %s or %s", theme, fore, back)
			}
			x, y := luminance(a), luminance(b)
			if ratio := (max(x, y) + .05) / (min(x, y) + .05); ratio < want {
				t.Errorf("%s: %s on %s is %.2f, want %v", theme, fore, back, ratio, want)
			}
		}
		for _, back := range []string{"back", "card"} {
			for _, fore := range text {
				hold(4.5, fore, back)
			}
			for _, fore := range drawn {
				hold(3, fore, back)
			}
		}
		for _, back := range []string{"reading", "early", "late", "broken", "nobody"} { // letters of the map, and the frame of late partitions
			hold(4.5, "text", back)
			hold(3, "attention", back)
		}
		for _, back := range []string{"good", "bad", "attention", "text"} { // words on the strip, and letters of marks
			hold(4.5, "card", back)
		}
		hold(3, "busy", "idle")
		hold(3, "waiting", "idle")
	}
}

func quoteJS(s string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`", "$", "\\$").Replace(s) + "`"
}
