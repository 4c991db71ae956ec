package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/listen"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/internal/webguard"
)

// Limits of the server.
const (
	storeTime   = 10 * time.Second // for the server's acknowledgement; then the answer is 503
	headerTime  = 5 * time.Second
	idleTime    = 2 * time.Minute
	headerBytes = 16 << 10
	requests    = 1024     // whose samples are being stored, at a time
	smallBody   = 8 << 10  // bytes; a body up to this size needs no place
	largeBytes  = 64 << 20 // of larger bodies on their way, at a time
	prefix      = "/v1/"
	wanted      = "want POST /v1/TOPIC, such as /v1/sensors/pump7; for line protocol POST /write or /api/v2/write"
)

// Options say what a server does.
type Options struct {
	Addr       string // to listen on
	Access     gateway.Access
	Topics     *gateway.Topics
	Guard      *webguard.Guard // refuses what foreign web pages send; nil: nothing is refused
	MaxMessage int             // bytes of a body, inflated
	// Lines reads line protocol whose times at the ends of lines are of a unit; nil: a
	// request that specifies one is refused.
	Lines func(unit time.Duration) gateway.Decoder
	Log   *slog.Logger
}

// Server takes POST requests until Close.
type Server struct {
	http    http.Server
	l       net.Listener
	done    chan struct{}
	handler *handler
}

// Listen starts a server for g. What follows /v1/ in the path of a request is
// its topic. /write and /api/v2/write take line protocol, as InfluxDB's do.
func Listen(g *gateway.Gateway, o Options) (*Server, error) {
	l, err := o.Access.Listen(o.Addr)
	if err != nil {
		return nil, err
	}
	h := &handler{g: g, o: o, room: make(chan struct{}, requests), large: listen.NewPlaces(max(1, largeBytes/max(1, o.MaxMessage))), pace: listen.DefaultPace}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+prefix, h.samples)
	mux.HandleFunc("POST /write", h.lines)
	mux.HandleFunc("POST /api/v2/write", h.lines)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc(prefix, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", "POST")
		answer(w, http.StatusMethodNotAllowed, wanted)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusNotFound, wanted) })
	guarded := http.Handler(mux)
	if o.Guard != nil {
		guarded = o.Guard.Handler(mux, func(err error) { g.Refuse(gateway.HTTP, err) })
	}
	s := &Server{l: l, done: make(chan struct{}), handler: h, http: http.Server{
		Handler: guarded, ReadTimeout: listen.DefaultPace.Whole, ReadHeaderTimeout: headerTime, WriteTimeout: 2 * (listen.DefaultPace.Whole + storeTime), IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), // clients that break off are no news
	}}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("HTTP is no longer served", "addr", o.Addr, "err", err)
		}
	}()
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.l.Addr() }

// Close lets answers under way finish for a second.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	<-s.done
}

type handler struct {
	g     *gateway.Gateway
	o     Options
	room  chan struct{}  // one for each request whose samples are being stored
	large *listen.Places // for large bodies on their way
	pace  listen.Pace    // of bodies
}

// samples takes a message whose topic is in the path.
func (h *handler) samples(w http.ResponseWriter, r *http.Request) {
	if !h.loggedIn(w, r) { // before anything is said of topics
		return
	}
	if r.URL.Query().Has(precision) {
		answer(w, http.StatusBadRequest, "the parameter precision is of /write and /api/v2/write: input.time_unit specifies the unit of times here")
		return
	}
	key, err := h.o.Topics.Key(strings.TrimPrefix(r.URL.Path, prefix))
	if err != nil {
		h.g.Refuse(gateway.HTTP, err)
		answer(w, http.StatusNotFound, err.Error())
		return
	}
	h.take(w, r, &gateway.Message{Input: gateway.HTTP, From: r.RemoteAddr, Key: key})
}

// lines takes line protocol, whose tags name the streams.
func (h *handler) lines(w http.ResponseWriter, r *http.Request) {
	w = influxAnswer{w}
	if !h.loggedIn(w, r) {
		return
	}
	m := &gateway.Message{Input: gateway.HTTP, From: r.RemoteAddr, Lines: true}
	unit, err := precisionOf(r.URL)
	if err == nil && unit != 0 {
		if h.o.Lines == nil {
			err = errors.New("the parameter precision is not supported here")
		} else {
			m.Decoder = h.o.Lines(unit)
		}
	}
	if err != nil {
		h.g.Refuse(gateway.HTTP, err)
		answer(w, http.StatusBadRequest, err.Error())
		return
	}
	h.take(w, r, m)
}

// loggedIn answers a request that does not log in.
func (h *handler) loggedIn(w http.ResponseWriter, r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	if h.o.Access.Allows(user, password) {
		return true
	}
	h.g.Refuse(gateway.HTTP, errors.New("a request has a name or password that is not gateway.user and gateway.password"))
	w.Header().Set("WWW-Authenticate", `Basic realm="eusn-stream gateway"`)
	answer(w, http.StatusUnauthorized, "log in with gateway.user and gateway.password")
	return false
}

func (h *handler) take(w http.ResponseWriter, r *http.Request, m *gateway.Message) {
	m.Trace = trace.Of(r.Header)
	var err error
	if m.Payload, err = h.readBody(w, r); err == errManyBodies {
		h.later(w, err.Error())
		return
	} else if err != nil {
		code := http.StatusBadRequest
		switch large := new(http.MaxBytesError); {
		case errors.As(err, &large):
			code = http.StatusRequestEntityTooLarge
			h.g.Refuse(gateway.HTTP, err)
		case errors.Is(err, errSlow):
			code = http.StatusRequestTimeout
			h.g.Refuse(gateway.HTTP, err)
		case errors.Is(err, errEncoding):
			code = http.StatusUnsupportedMediaType
			w.Header().Set("Accept-Encoding", "gzip")
		}
		answer(w, code, err.Error())
		return
	}
	select { // after the body, so that slow bodies keep nobody out
	case h.room <- struct{}{}:
		defer func() { <-h.room }()
	default:
		h.later(w, "too many requests at a time")
		return
	}
	if k := r.Header.Get("Idempotency-Key"); k != "" {
		// Devices with topics of their own may choose the same keys.
		m.Session, m.ID, m.Repeat = gateway.HTTPSession, xxh3.HashStringSeed(k, xxh3.HashString(r.URL.Path)), true
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTime)
	defer cancel()
	stored := make(chan error, 1)
	m.Done = func(err error) { stored <- err }
	if err = h.g.Take(ctx, m); err == nil {
		select {
		case err = <-stored:
		case <-ctx.Done():
			err = gateway.ErrHeldBack
		}
	}
	var refused *gateway.Refused
	var partial *gateway.Partial
	var unreadable *gateway.Unreadable
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.As(err, &unreadable): // stored, and it will not be read later either
		answer(w, http.StatusUnprocessableEntity, err.Error())
	case errors.As(err, &refused) && !refused.Later, errors.As(err, &partial):
		answer(w, http.StatusBadRequest, err.Error())
	default:
		h.later(w, err.Error())
	}
}

func (h *handler) later(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	answer(w, http.StatusServiceUnavailable, why+"; send it again, with the same Idempotency-Key: then it counts once")
}
