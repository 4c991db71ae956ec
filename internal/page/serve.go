package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/errtext"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

//go:embed page.html
var html []byte

const (
	// MostViewers is the maximum number of viewers of events.
	MostViewers = 32
	queued      = 4                // events in a viewer's queue
	sendTime    = 10 * time.Second // for one event
	keepAlive   = 15 * time.Second // maximum time without an event, for example while the machine sleeps
	mostName    = 512              // bytes of a stream's name
)

// policy is the page's Content-Security-Policy: it allows only the page's own script and style.
var policy = fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	policyHash("<script>", "</script>"), policyHash("<style>", "</style>"))

// policyHash returns the policy's hash of the element between two tags.
func policyHash(open, end string) string {
	_, rest, begun := bytes.Cut(html, []byte(open))
	text, _, over := bytes.Cut(rest, []byte(end))
	if !begun || !over {
		panic("BUG: the page has no " + open)
	}
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// ServeHTTP serves GET / and paths below /page/.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		writeError(w, http.StatusMethodNotAllowed, "this page only reads: GET or HEAD")
		return
	}
	switch r.URL.Path {
	case "/":
		h.Set("Content-Security-Policy", policy)
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(html) // a disconnected client retries
	case "/page/state":
		p.markViewed()
		p.mu.Lock()
		p.lastRequest = time.Now()
		p.mu.Unlock()
		writeJSON(w, p.newState(time.Now(), true))
	case "/page/events":
		p.serveEvents(w, r)
	case "/page/machines":
		p.serveMachines(w, r)
	case "/page/stream":
		p.serveStream(w, r)
	case "/page/samples":
		p.serveSamples(w, r)
	default:
		writeError(w, http.StatusNotFound, "there is no such page: / is the live page; others are /metrics, /healthz and /readyz")
	}
}

// serveMachines answers with a list of machines. The first list waits for the existing
// predictions, for firstWait at most.
func (p *Page) serveMachines(w http.ResponseWriter, r *http.Request) {
	q, err := parseListQuery(r.URL.RawQuery)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	p.markViewed()
	if p.job.Load() != nil {
		p.machines.awaitRead(r.Context())
	}
	writeJSON(w, p.machines.list(q, time.Now(), p.lateness()))
}

// serveStream answers with the last predictions of a stream, its condition and its past.
func (p *Page) serveStream(w http.ResponseWriter, r *http.Request) {
	name, err := parseQuery(r.URL.RawQuery, "name")
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	p.answerLookup(w, r, func(ctx context.Context, job *Job) (any, error) { return p.lookUpMachine(ctx, job, name) })
}

// serveSamples answers with samples of a stream.
func (p *Page) serveSamples(w http.ResponseWriter, r *http.Request) {
	q, err := parseSampleQuery(r.URL.RawQuery)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	p.answerLookup(w, r, func(ctx context.Context, job *Job) (any, error) {
		if err := p.finder.acquire(ctx); err != nil {
			return nil, err
		}
		defer func() { <-p.finder.slot }()
		return readSamples(ctx, job.JS, p.options.Job, p.options.Channels, q)
	})
}

// answerLookup answers with the result of a lookup on the server.
func (p *Page) answerLookup(w http.ResponseWriter, r *http.Request, look func(context.Context, *Job) (any, error)) {
	job := p.job.Load()
	if job == nil {
		writeError(w, http.StatusServiceUnavailable, "the stage is not connected to its server: retry when it is ready")
		return
	}
	found, err := look(r.Context(), job)
	switch {
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		writeError(w, http.StatusGatewayTimeout, "the NATS server did not answer in time: it is overloaded or does not run; retry in a moment")
	case err != nil:
		writeError(w, http.StatusBadGateway, shorten(errtext.For(err)))
	default:
		writeJSON(w, found)
	}
}

// parseQuery returns the single value of a query.
func parseQuery(query, key string) (string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", fmt.Errorf("the query cannot be read: %s", shorten(err.Error()))
	}
	all, text := values[key], values.Get(key)
	switch {
	case len(values) != 1 || len(all) != 1:
		return "", fmt.Errorf("want one value of %s in the query, such as ?%s=pump7", key, key)
	case text == "":
		return "", fmt.Errorf("%s is empty: want the name of a stream", key)
	case len(text) > mostName:
		return "", fmt.Errorf("%s has %d bytes, want at most %d", key, len(text), mostName)
	case !utf8.ValidString(text):
		return "", fmt.Errorf("%s is not UTF-8", key)
	}
	return text, nil
}

// writeJSON writes JSON with escaped < and >, the default of encoding/json.
func writeJSON(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		writeError(w, http.StatusInternalServerError, "BUG: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(append(data, '\n'))
}

func writeError(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, why+"\n")
}

// viewers are the receivers of events.
type viewers struct {
	mu     sync.Mutex
	all    map[*viewer]bool
	closed bool
}

type viewer struct{ events chan []byte } // closed: the viewer was dropped

func (v *viewers) hasViewers() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.all) > 0
}

// addViewer returns nil at the limit of viewers.
func (v *viewers) addViewer() *viewer {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || len(v.all) >= MostViewers {
		return nil
	}
	viewer := &viewer{make(chan []byte, queued)}
	v.all[viewer] = true
	return viewer
}

func (v *viewers) removeViewer(viewer *viewer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropViewer(viewer)
}

func (v *viewers) dropViewer(viewer *viewer) {
	if v.all[viewer] {
		delete(v.all, viewer)
		close(viewer.events)
	}
}

// sendEvent sends an event to all viewers, and drops viewers with a full queue.
func (v *viewers) sendEvent(event []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for viewer := range v.all {
		select {
		case viewer.events <- event:
		default:
			v.dropViewer(viewer)
		}
	}
}

func (v *viewers) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	for viewer := range v.all {
		v.dropViewer(viewer)
	}
}

// newEvent returns a server-sent event.
func newEvent(name string, s State) []byte {
	data, err := json.Marshal(s)
	if err != nil {
		data, _ = json.Marshal("BUG: " + err.Error())
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data)
}

// serveEvents sends events until the viewer leaves or is dropped.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	viewer := p.viewers.addViewer()
	if viewer == nil {
		w.Header().Set("Retry-After", "10")
		writeError(w, http.StatusServiceUnavailable, fmt.Sprintf("%d browsers have this page open, which is the limit; /page/state has the same data", MostViewers))
		return
	}
	defer p.viewers.removeViewer(viewer)
	p.markViewed()
	out := http.NewResponseController(w)
	send := func(data []byte) error {
		if err := out.SetWriteDeadline(time.Now().Add(sendTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		return out.Flush()
	}
	_ = out.SetReadDeadline(time.Time{}) // the request was read; the server's limit would end the connection
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	hello := append([]byte("retry: 2000\n"), newEvent("hello", p.newState(time.Now(), true))...)
	if r.Method == http.MethodHead || send(hello) != nil {
		return
	}
	alive := time.NewTimer(keepAlive)
	defer alive.Stop()
	for {
		alive.Reset(keepAlive)
		var data []byte
		select {
		case <-r.Context().Done():
			return
		case next, ok := <-viewer.events:
			if !ok {
				return
			}
			data = next
		case <-alive.C:
			data = []byte(": nothing new\n\n")
		}
		if send(data) != nil {
			return
		}
	}
}

// quoteShell quotes any word for a Unix shell. A word with control characters is written in the
// form of bash, ksh and zsh, so that a terminal shows them without effect.
func quoteShell(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:@%+=,", r)
	}
	switch {
	case strings.ContainsFunc(word, names.IsControl):
		var b strings.Builder
		b.WriteString("$'")
		for _, c := range []byte(word) {
			if c < ' ' || c > '~' || c == '\'' || c == '\\' {
				fmt.Fprintf(&b, `\x%02x`, c)
			} else {
				b.WriteByte(c)
			}
		}
		return b.String() + "'"
	case word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0:
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
