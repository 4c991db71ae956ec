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

	"github.com/eusn-stream/eusn-stream/internal/names"
)

//go:embed page.html
var html []byte

const (
	// MostViewers is how many may be sent events at a time.
	MostViewers = 32
	queued      = 4                // events that a viewer may be behind
	sendTime    = 10 * time.Second // for one event
	keepAlive   = 15 * time.Second // without an event, as while the machine sleeps
	mostName    = 512              // bytes of a stream's name
)

// policy is the page's Content-Security-Policy: its own script and style, and no other.
var policy = fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	hashed("<script>", "</script>"), hashed("<style>", "</style>"))

// hashed is what a policy calls the one element of the page between two tags.
func hashed(open, end string) string {
	_, rest, begun := bytes.Cut(html, []byte(open))
	text, _, over := bytes.Cut(rest, []byte(end))
	if !begun || !over {
		panic("BUG: the page has no " + open)
	}
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// ServeHTTP answers GET / and what is below /page/.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "this page only reads: GET or HEAD")
		return
	}
	switch r.URL.Path {
	case "/":
		h.Set("Content-Security-Policy", policy)
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(html) // a client that is gone asks again
	case "/page/state":
		p.mu.Lock()
		p.looked = time.Now()
		p.mu.Unlock()
		reply(w, p.state(time.Now(), true))
	case "/page/events":
		p.events(w, r)
	case "/page/stream":
		p.answer(w, r, "name", func(ctx context.Context, job *Job, name string) (any, error) {
			return p.finder.find(ctx, job, p.options.Job, name)
		})
	case "/page/streams":
		p.answer(w, r, "part", func(ctx context.Context, job *Job, part string) (any, error) {
			return p.finder.names(ctx, job, p.options.Job, part)
		})
	default:
		refuse(w, http.StatusNotFound, "there is no such page: / is the live page; /metrics, /healthz and /readyz are beside it")
	}
}

// answer looks something up on the server.
func (p *Page) answer(w http.ResponseWriter, r *http.Request, key string, look func(context.Context, *Job, string) (any, error)) {
	text, err := asked(r.URL.RawQuery, key)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	job := p.job.Load()
	if job == nil {
		refuse(w, http.StatusServiceUnavailable, "the stage is not connected to its server: try again when it is ready")
		return
	}
	found, err := look(r.Context(), job, text)
	switch {
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		refuse(w, http.StatusGatewayTimeout, "the NATS server did not answer in time: it has too much to do now, or does not run; try again in a moment")
	case err != nil:
		refuse(w, http.StatusBadGateway, short(err.Error()))
	default:
		reply(w, found)
	}
}

// asked is the one value of a query.
func asked(query, key string) (string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", fmt.Errorf("the query cannot be read: %s", short(err.Error()))
	}
	all, text := values[key], values.Get(key)
	switch {
	case len(values) != 1 || len(all) != 1:
		return "", fmt.Errorf("want one value of %s in the query, such as ?%s=pump7", key, key)
	case text == "":
		return "", fmt.Errorf("%s is empty: want the name of a stream, or a part of it", key)
	case len(text) > mostName:
		return "", fmt.Errorf("%s has %d bytes, want at most %d", key, len(text), mostName)
	case !utf8.ValidString(text):
		return "", fmt.Errorf("%s is not UTF-8", key)
	}
	return text, nil
}

// reply is JSON in which < and > are escaped, as encoding/json does by itself.
func reply(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "BUG: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(append(data, '\n'))
}

func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, why+"\n")
}

// viewers are those who are sent events.
type viewers struct {
	mu     sync.Mutex
	all    map[*viewer]bool
	closed bool
}

type viewer struct{ events chan []byte } // closed: it is dropped

func (v *viewers) any() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.all) > 0
}

// join returns nil if there are as many as may be.
func (v *viewers) join() *viewer {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || len(v.all) >= MostViewers {
		return nil
	}
	one := &viewer{make(chan []byte, queued)}
	v.all[one] = true
	return one
}

func (v *viewers) leave(one *viewer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(one)
}

func (v *viewers) drop(one *viewer) {
	if v.all[one] {
		delete(v.all, one)
		close(one.events)
	}
}

// send hands an event to all, and drops those who have not taken the ones before.
func (v *viewers) send(event []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for one := range v.all {
		select {
		case one.events <- event:
		default:
			v.drop(one)
		}
	}
}

func (v *viewers) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	for one := range v.all {
		v.drop(one)
	}
}

// event is a server-sent event.
func event(name string, s State) []byte {
	data, err := json.Marshal(s)
	if err != nil {
		data, _ = json.Marshal("BUG: " + err.Error())
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data)
}

// events sends what happens until the viewer leaves, or is dropped.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	me := p.viewers.join()
	if me == nil {
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d look at this page already; /page/state has the same", MostViewers))
		return
	}
	defer p.viewers.leave(me)
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
	_ = out.SetReadDeadline(time.Time{}) // the request is read; the server's limit would end the connection
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	hello := append([]byte("retry: 2000\n"), event("hello", p.state(time.Now(), true))...)
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
		case next, ok := <-me.events:
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

// quoted is a word for a shell of Unix, whatever is in it. One with characters that steer is
// written as bash, ksh and zsh read it, so that it shows them and does nothing where it is
// printed.
func quoted(word string) string {
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
