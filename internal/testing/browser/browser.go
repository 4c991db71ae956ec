// Package browser drives a headless Chromium with chromedp, for tests of pages. The
// connection is a pair of pipes: no port is opened.
package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// patience is far longer than a browser needs, so that only a hang exceeds it.
const patience = time.Minute

// Browser is a browser with one tab.
type Browser struct {
	t   testing.TB
	tab context.Context

	mu      sync.Mutex // guards console
	console []string   // errors and messages of the page, and violations of its policy
}

// Start starts Debian's chromium, or ends the test if chromium is missing.
func Start(t testing.TB) *Browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		parts.Absent(t, "chromium", "%v (Debian: apt-get install --no-install-recommends chromium)", err)
	}
	var stderr bytes.Buffer
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.CombinedOutput(&stderr))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	b := &Browser{t: t}
	var closeTab context.CancelFunc
	b.tab, closeTab = chromedp.NewContext(allocator, chromedp.WithListener(b.recordEvent))
	t.Cleanup(func() {
		closeTab()
		stop()
		if t.Failed() {
			t.Logf("the browser's log: %s", &stderr)
		}
	})
	runAction(b, "start", chromedp.Steps())
	return b
}

// recordEvent records the page's console messages.
func (b *Browser) recordEvent(event any) {
	switch event.(type) {
	case *runtime.EventExceptionThrown, *runtime.EventConsoleAPICalled, *log.EventEntryAdded, *page.EventJavascriptDialogOpening:
		text, _ := json.Marshal(event) // events of chromedp have a JSON form
		b.mu.Lock()
		b.console = append(b.console, fmt.Sprintf("%T %s", event, text))
		b.mu.Unlock()
	}
}

// runAction runs an action in the tab, and ends the test if the action fails.
func runAction[T any](b *Browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	late := time.AfterFunc(patience, func() { _ = chromedp.Cancel(b.tab) })
	defer late.Stop()
	v, err := chromedp.Run(b.tab, action)
	if err != nil {
		b.t.Fatalf("browser, %s: %v", what, err)
	}
	return v
}

// Open loads an address.
func (b *Browser) Open(url string) {
	b.t.Helper()
	runAction(b, url, chromedp.Navigate(url))
}

// Eval evaluates an expression in the page, awaits a promise, and stores the value. The
// page's policy does not apply to the expression, as in DevTools.
func (b *Browser) Eval(expression string, into any) {
	b.t.Helper()
	r := runAction(b, expression, chromedp.Evaluate[*runtime.RemoteObject](expression, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	if into != nil && len(r.Value) > 0 {
		if err := json.Unmarshal(r.Value, into); err != nil {
			b.t.Fatalf("browser, %s: %v: %s", expression, err, r.Value)
		}
	}
}

// EvalText returns the value of an expression as a string.
func (b *Browser) EvalText(expression string) (s string) {
	b.t.Helper()
	b.Eval("String("+expression+")", &s)
	return s
}

// AwaitTrue waits until an expression is true. An expression that fails counts as false,
// because the page may not be loaded yet.
func (b *Browser) AwaitTrue(what, expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var ok bool
		b.Eval("(() => { try { return Boolean("+expression+") } catch { return false } })()", &ok)
		if ok {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("browser: no %s within %v; the page has: %s", what, patience, b.EvalText("document.body ? document.body.innerText : 'nothing'"))
		}
	}
}

// TypeText types a text into the focused element.
func (b *Browser) TypeText(text string) {
	b.t.Helper()
	runAction(b, "typing", chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, input.InsertText, input.InsertTextParams{Text: text})
		return err
	}))
}

// PressKey presses a key, for example Enter or Tab.
func (b *Browser) PressKey(key string) {
	b.t.Helper()
	code := map[string]string{"Enter": kb.Enter, "Tab": kb.Tab, "ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight, "ArrowDown": kb.ArrowDown, "ArrowUp": kb.ArrowUp, "Escape": kb.Escape}[key]
	if code == "" {
		b.t.Fatalf("browser: which key is %s?", key)
	}
	runAction(b, key, chromedp.KeyEvent(code))
}

// Size sets the tab's size in CSS pixels; media are features, for example
// prefers-color-scheme, and print selects the medium.
func (b *Browser) Size(width, height int, print bool, media map[string]string) {
	b.t.Helper()
	var params emulation.SetEmulatedMediaParams
	if print {
		params.Media = "print"
	}
	for name, value := range media {
		params.Features = append(params.Features, &emulation.MediaFeature{Name: name, Value: value})
	}
	runAction(b, "size", chromedp.Steps(chromedp.EmulateViewport(int64(width), int64(height)), chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, params)
		return err
	})))
}

// AccessibleLines returns the page as a screen reader has it: a line with role and name for each
// element that has a name.
func (b *Browser) AccessibleLines() (lines []string) {
	b.t.Helper()
	runAction(b, "accessibility tree", chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		r, err := cdp.Call(ctx, tab, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		for _, n := range r.Nodes {
			var role, name string
			if n.Ignored || n.Role == nil || n.Name == nil || json.Unmarshal(n.Role.Value, &role) != nil || json.Unmarshal(n.Name.Value, &name) != nil || name == "" {
				continue
			}
			lines = append(lines, role+" "+strings.Join(strings.Fields(name), " "))
		}
		return err
	}))
	return lines
}

// CPUTime returns the CPU time of the process of the tab.
func (b *Browser) CPUTime() (spent time.Duration) {
	b.t.Helper()
	runAction(b, "CPU time", chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		if _, err := cdp.Call(ctx, tab, performance.Enable, performance.EnableParams{}); err != nil {
			return err
		}
		r, err := cdp.Call(ctx, tab, performance.GetMetrics, cdp.Empty{})
		for _, m := range r.Metrics {
			if m.Name == "ProcessTime" {
				spent = time.Duration(m.Value * float64(time.Second))
			}
		}
		return err
	}))
	if spent == 0 {
		b.t.Fatal("browser: no CPU time of the tab")
	}
	return spent
}

// SavePicture writes the whole page as PNG.
func (b *Browser) SavePicture(path string) {
	b.t.Helper()
	if err := os.WriteFile(path, runAction(b, "picture", chromedp.FullScreenshot(100)), 0o644); err != nil {
		b.t.Fatalf("browser: a picture: %v", err)
	}
}

// ConsoleLines returns the page's console so far: exceptions, messages, and violations of
// the page's policy.
func (b *Browser) ConsoleLines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.console...)
}
