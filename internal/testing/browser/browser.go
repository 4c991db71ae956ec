// Package browser drives a headless Chromium over the DevTools protocol, for tests of
// pages. It speaks over two pipes: no port is opened, and no library is needed.
package browser

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// patience is far beyond what a browser needs, so that only a hang fails by it.
const patience = time.Minute

// Browser is one with one tab.
type Browser struct {
	t       testing.TB
	to      *os.File
	session string

	mu      sync.Mutex // guards what follows
	next    int
	answers map[int]chan answer
	said    []string // what the page's console had: errors, and what its policy refused
	gone    bool
}

type answer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start begins Debian's chromium. It ends the test where there is none.
func Start(t testing.TB) *Browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		parts.Absent(t, "chromium", "%v (Debian: apt-get install --no-install-recommends chromium)", err)
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "eusn-browser-") // not t.TempDir: what the browser leaves running for a moment writes there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	c := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-extensions", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	c.ExtraFiles = []*os.File{theirs, answers} // 3 and 4
	var log bytes.Buffer
	c.Stderr = &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	answers.Close()
	b := &Browser{t: t, to: to, answers: map[int]chan answer{}}
	var reading sync.WaitGroup
	reading.Go(func() { b.read(from) })
	t.Cleanup(func() {
		b.to.Close() // the browser ends
		late := time.AfterFunc(10*time.Second, func() { _ = c.Process.Kill() })
		_ = c.Wait()
		late.Stop()
		from.Close()
		reading.Wait()
		if t.Failed() {
			t.Logf("the browser said: %s", &log)
		}
	})
	var tabs struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	b.call("Target.getTargets", nil, &tabs)
	for _, tab := range tabs.TargetInfos {
		if tab.Type == "page" {
			var attached struct{ SessionID string }
			b.call("Target.attachToTarget", map[string]any{"targetId": tab.TargetID, "flatten": true}, &attached)
			b.session = attached.SessionID
			break
		}
	}
	if b.session == "" {
		t.Fatal("the browser has no tab")
	}
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// read takes what the browser says, until it ends.
func (b *Browser) read(from *os.File) {
	in := bufio.NewReader(from)
	for {
		data, err := in.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			b.gone = true
			for id, to := range b.answers {
				close(to)
				delete(b.answers, id)
			}
			b.mu.Unlock()
			return
		}
		var m struct {
			answer
			ID     int             `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(data[:len(data)-1], &m); err != nil {
			continue
		}
		b.mu.Lock()
		switch to := b.answers[m.ID]; {
		case m.ID > 0 && to != nil:
			to <- m.answer
			delete(b.answers, m.ID)
		case m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" || m.Method == "Runtime.consoleAPICalled" || m.Method == "Page.javascriptDialogOpening":
			b.said = append(b.said, m.Method+" "+string(m.Params))
		}
		b.mu.Unlock()
	}
}

// call asks the browser something, and wants an answer.
func (b *Browser) call(method string, params, into any) {
	b.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	b.mu.Lock()
	b.next++
	id, to := b.next, make(chan answer, 1)
	b.answers[id] = to
	gone := b.gone
	b.mu.Unlock()
	message := map[string]any{"id": id, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	data, err := json.Marshal(message)
	if err == nil && !gone {
		_, err = b.to.Write(append(data, 0))
	}
	if err != nil || gone {
		b.t.Fatalf("browser, %s: %v; it has ended: %v", method, err, gone)
	}
	select {
	case a, ok := <-to:
		switch {
		case !ok:
			b.t.Fatalf("browser: it ended at %s", method)
		case a.Error != nil:
			b.t.Fatalf("browser, %s: %s", method, a.Error.Message)
		case into != nil:
			if err := json.Unmarshal(a.Result, into); err != nil {
				b.t.Fatalf("browser, %s: %v: %s", method, err, a.Result)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("browser: no answer to %s within %v", method, patience)
	}
}

// Open goes to an address.
func (b *Browser) Open(url string) {
	b.t.Helper()
	var went struct{ ErrorText string }
	b.call("Page.navigate", map[string]any{"url": url}, &went)
	if went.ErrorText != "" {
		b.t.Fatalf("browser, %s: %s", url, went.ErrorText)
	}
}

// Eval is the value of an expression in the page; a promise's is waited for. It is
// evaluated beside the page's policy, as DevTools do.
func (b *Browser) Eval(expression string, into any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if e := r.ExceptionDetails; e != nil {
		b.t.Fatalf("browser, %s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if into != nil && r.Result.Value != nil {
		if err := json.Unmarshal(r.Result.Value, into); err != nil {
			b.t.Fatalf("browser, %s: %v: %s", expression, err, r.Result.Value)
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
	b.call("Input.insertText", map[string]any{"text": text}, nil)
}

// Press presses a key, such as Enter or Tab.
func (b *Browser) Press(key string) {
	b.t.Helper()
	code := map[string]int{"Enter": 13, "Tab": 9, "ArrowLeft": 37, "Escape": 27}[key]
	if code == 0 {
		b.t.Fatalf("browser: which key is %s?", key)
	}
	down := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
	if key == "Enter" {
		down["text"] = "\r"
	}
	b.call("Input.dispatchKeyEvent", down, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
}

// Size makes the tab so many CSS pixels large; media are features such as
// prefers-color-scheme, and print is the medium.
func (b *Browser) Size(width, height int, print bool, media map[string]string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	features := []map[string]string{}
	for name, value := range media {
		features = append(features, map[string]string{"name": name, "value": value})
	}
	medium := ""
	if print {
		medium = "print"
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": medium, "features": features}, nil)
}

// Picture writes what the page looks like, all of it, as PNG.
func (b *Browser) Picture(path string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		b.t.Fatal(fmt.Errorf("browser: a picture: %w", err))
	}
}

// Said is what the page's console had so far: exceptions, messages, and what the page's
// policy refused.
func (b *Browser) Said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.said...)
}
