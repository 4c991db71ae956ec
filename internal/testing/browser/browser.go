// Package browser drives a headless Chromium with chromedp, for tests of pages. The two
// talk over pipes: no port is opened.
package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// patience is far beyond what a browser needs, so that only a hang fails by it.
const patience = time.Minute

// Browser is one with one tab.
type Browser struct {
	t   testing.TB
	tab context.Context

	mu      sync.Mutex // guards console
	console []string   // errors and messages of the page, and what its policy refused
}

// Start starts Debian's chromium. It ends the test if chromium is absent.
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
	b.tab, closeTab = chromedp.NewContext(allocator, chromedp.WithListener(b.listen))
	t.Cleanup(func() {
		closeTab()
		stop()
		if t.Failed() {
			t.Logf("the browser's log: %s", &stderr)
		}
	})
	do(b, "start", chromedp.Steps())
	return b
}

// listen keeps what the page writes to its console.
func (b *Browser) listen(event any) {
	switch event.(type) {
	case *runtime.EventExceptionThrown, *runtime.EventConsoleAPICalled, *log.EventEntryAdded, *page.EventJavascriptDialogOpening:
		text, _ := json.Marshal(event) // events of chromedp have JSON
		b.mu.Lock()
		b.console = append(b.console, fmt.Sprintf("%T %s", event, text))
		b.mu.Unlock()
	}
}

// do runs an action in the tab, and ends the test if it fails.
func do[T any](b *Browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	late := time.AfterFunc(patience, func() { _ = chromedp.Cancel(b.tab) })
	defer late.Stop()
	v, err := chromedp.Run(b.tab, action)
	if err != nil {
		b.t.Fatalf("browser, %s: %v", what, err)
	}
	return v
}

// Open goes to an address.
func (b *Browser) Open(url string) {
	b.t.Helper()
	do(b, url, chromedp.Navigate(url))
}

// Eval stores the value of an expression in the page; it waits for a promise. The page's
// policy does not apply to the expression, as in DevTools.
func (b *Browser) Eval(expression string, into any) {
	b.t.Helper()
	r := do(b, expression, chromedp.Evaluate[*runtime.RemoteObject](expression, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	if into != nil && len(r.Value) > 0 {
		if err := json.Unmarshal(r.Value, into); err != nil {
			b.t.Fatalf("browser, %s: %v: %s", expression, err, r.Value)
		}
	}
}

// Text is a string that an expression has.
func (b *Browser) Text(expression string) (s string) {
	b.t.Helper()
	b.Eval("String("+expression+")", &s)
	return s
}

// Until waits for an expression to be true. One that fails is not true yet: the page may not
// be there.
func (b *Browser) Until(what, expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var ok bool
		b.Eval("(() => { try { return Boolean("+expression+") } catch { return false } })()", &ok)
		if ok {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("browser: no %s within %v; the page has: %s", what, patience, b.Text("document.body ? document.body.innerText : 'nothing'"))
		}
	}
}

// Type puts a text where the focus is, as a keyboard does.
func (b *Browser) Type(text string) {
	b.t.Helper()
	do(b, "typing", chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, input.InsertText, input.InsertTextParams{Text: text})
		return err
	}))
}

// Press presses a key, such as Enter or Tab.
func (b *Browser) Press(key string) {
	b.t.Helper()
	code := map[string]string{"Enter": kb.Enter, "Tab": kb.Tab, "ArrowLeft": kb.ArrowLeft, "Escape": kb.Escape}[key]
	if code == "" {
		b.t.Fatalf("browser: which key is %s?", key)
	}
	do(b, key, chromedp.KeyEvent(code))
}

// Size sets the tab's size in CSS pixels; media are features such as prefers-color-scheme,
// and print is the medium.
func (b *Browser) Size(width, height int, print bool, media map[string]string) {
	b.t.Helper()
	var params emulation.SetEmulatedMediaParams
	if print {
		params.Media = "print"
	}
	for name, value := range media {
		params.Features = append(params.Features, &emulation.MediaFeature{Name: name, Value: value})
	}
	do(b, "size", chromedp.Steps(chromedp.EmulateViewport(int64(width), int64(height)), chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, params)
		return err
	})))
}

// Picture writes the whole page as PNG.
func (b *Browser) Picture(path string) {
	b.t.Helper()
	if err := os.WriteFile(path, do(b, "picture", chromedp.FullScreenshot(100)), 0o644); err != nil {
		b.t.Fatalf("browser: a picture: %v", err)
	}
}

// Said is the page's console so far: exceptions, messages, and what the page's policy
// refused.
func (b *Browser) Said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.console...)
}
