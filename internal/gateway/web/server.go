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

	"github.com/eusn-stream/eusn-stream/internal/errtext"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/listen"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/internal/webguard"
)

// Limits of the server.
const (
	storeTime   = 10 * time.Second // for the server's acknowledgement; afterwards the answer is 503
	headerTime  = 5 * time.Second
	idleTime    = 2 * time.Minute
	headerBytes = 16 << 10
	maxRequests = 1024     // concurrent requests in storing
	smallBody   = 8 << 10  // bytes; bodies up to this size need no place
	largeBytes  = 64 << 20 // limit of larger bodies in transit
	prefix      = "/v1/"
	wantPath    = "want POST /v1/TOPIC, such as /v1/sensors/pump7; for line protocol POST /write or /api/v2/write"
)

// Options configure a server.
type Options struct {
	Addr       string // address to listen on
	Access     gateway.Access
	Topics     *gateway.Topics
	Guard      *webguard.Guard // refuses requests from foreign web pages; nil: no check
	MaxMessage int             // limit of a decompressed body in bytes
	// Lines returns a decoder of line protocol with a unit of times; nil: requests with a unit
	// are refused.
	Lines func(unit time.Duration) gateway.Decoder
	Log   *slog.Logger
}

// Server accepts POST requests until Close.
type Server struct {
	http    http.Server
	l       net.Listener
	done    chan struct{}
	handler *handler
}

// NewHandler returns the handler of a server's requests. The path of a request after /v1/ is
// its topic. /write and /api/v2/write accept line protocol, like InfluxDB.
func NewHandler(g *gateway.Gateway, o Options) http.Handler {
	_, guarded := newHandler(g, o)
	return guarded
}

func newHandler(g *gateway.Gateway, o Options) (h *handler, guarded http.Handler) {
	h = &handler{gateway: g, options: o, room: make(chan struct{}, maxRequests), large: listen.NewPlaces(max(1, largeBytes/max(1, o.MaxMessage))), pace: listen.DefaultPace}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+prefix, h.handleSamples)
	mux.HandleFunc("POST /write", h.handleLines)
	mux.HandleFunc("POST /api/v2/write", h.handleLines)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc(prefix, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", "POST")
		writeError(w, http.StatusMethodNotAllowed, wantPath)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { writeError(w, http.StatusNotFound, wantPath) })
	if o.Guard == nil {
		return h, mux
	}
	return h, o.Guard.Handler(mux, func(err error) { g.Refuse(gateway.HTTP, err) })
}

// Listen starts a server for g, with the handler of NewHandler.
func Listen(g *gateway.Gateway, o Options) (*Server, error) {
	l, err := o.Access.Listen(o.Addr)
	if err != nil {
		return nil, err
	}
	h, guarded := newHandler(g, o)
	s := &Server{l: l, done: make(chan struct{}), handler: h, http: http.Server{
		Handler: guarded, ReadTimeout: listen.DefaultPace.Whole, ReadHeaderTimeout: headerTime, WriteTimeout: 2 * (listen.DefaultPace.Whole + storeTime), IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), // broken client connections are not news
	}}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("the HTTP server has stopped", "addr", o.Addr, "err", err)
		}
	}()
	return s, nil
}

// Addr returns the address of the listener.
func (s *Server) Addr() net.Addr { return s.l.Addr() }

// Close waits up to one second for answers in progress.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	<-s.done
}

type handler struct {
	gateway *gateway.Gateway
	options Options
	room    chan struct{}  // one element per request in storing
	large   *listen.Places // for large bodies in transit
	pace    listen.Pace    // minimum pace of bodies
}

// handleSamples handles a message with its topic in the path.
func (h *handler) handleSamples(w http.ResponseWriter, r *http.Request) {
	if !h.requireLogin(w, r) { // before any answer about topics
		return
	}
	if r.URL.Query().Has(precision) {
		writeError(w, http.StatusBadRequest, "the parameter precision is only for /write and /api/v2/write: set the unit of times with input.time_unit")
		return
	}
	key, err := h.options.Topics.Key(strings.TrimPrefix(r.URL.Path, prefix))
	if err != nil {
		h.gateway.Refuse(gateway.HTTP, err)
		writeError(w, http.StatusNotFound, errtext.For(err))
		return
	}
	h.storeMessage(w, r, &gateway.Message{Input: gateway.HTTP, From: r.RemoteAddr, Key: key})
}

// handleLines handles line protocol; the streams are in the tags.
func (h *handler) handleLines(w http.ResponseWriter, r *http.Request) {
	w = influxWriter{w}
	if !h.requireLogin(w, r) {
		return
	}
	m := &gateway.Message{Input: gateway.HTTP, From: r.RemoteAddr, Lines: true}
	unit, err := parsePrecision(r.URL)
	if err == nil && unit != 0 {
		if h.options.Lines == nil {
			err = errors.New("the parameter precision is not supported here")
		} else {
			m.Decoder = h.options.Lines(unit)
		}
	}
	if err != nil {
		h.gateway.Refuse(gateway.HTTP, err)
		writeError(w, http.StatusBadRequest, errtext.For(err))
		return
	}
	h.storeMessage(w, r, m)
}

// requireLogin answers a request without a valid login, and returns false.
func (h *handler) requireLogin(w http.ResponseWriter, r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	if h.options.Access.Allows(user, password) {
		return true
	}
	h.gateway.Refuse(gateway.HTTP, errors.New("a request has a wrong name or password: want gateway.user and gateway.password"))
	w.Header().Set("WWW-Authenticate", `Basic realm="eusn-stream gateway"`)
	writeError(w, http.StatusUnauthorized, "log in with gateway.user and gateway.password")
	return false
}

func (h *handler) storeMessage(w http.ResponseWriter, r *http.Request, m *gateway.Message) {
	m.Trace = trace.Of(r.Header)
	var err error
	if m.Payload, err = h.readBody(w, r); err == errManyBodies {
		h.writeRetry(w, errtext.For(err))
		return
	} else if err != nil {
		code := http.StatusBadRequest
		switch large := new(http.MaxBytesError); {
		case errors.As(err, &large):
			code = http.StatusRequestEntityTooLarge
			h.gateway.Refuse(gateway.HTTP, err)
		case errors.Is(err, errSlow):
			code = http.StatusRequestTimeout
			h.gateway.Refuse(gateway.HTTP, err)
		case errors.Is(err, errEncoding):
			code = http.StatusUnsupportedMediaType
			w.Header().Set("Accept-Encoding", "gzip")
		}
		writeError(w, code, errtext.For(err))
		return
	}
	select { // after the body, so that slow bodies block no other request
	case h.room <- struct{}{}:
		defer func() { <-h.room }()
	default:
		h.writeRetry(w, "too many concurrent requests")
		return
	}
	if k := r.Header.Get("Idempotency-Key"); k != "" {
		// Devices with different topics may choose the same keys.
		m.Session, m.ID, m.Repeat = gateway.HTTPSession, xxh3.HashStringSeed(k, xxh3.HashString(r.URL.Path)), true
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTime)
	defer cancel()
	stored := make(chan error, 1)
	m.Done = func(err error) { stored <- err }
	if err = h.gateway.Take(ctx, m); err == nil {
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
	case errors.As(err, &unreadable): // stored, but not decodable, now or later
		writeError(w, http.StatusUnprocessableEntity, errtext.For(err))
	case errors.As(err, &refused) && !refused.Later, errors.As(err, &partial):
		writeError(w, http.StatusBadRequest, errtext.For(err))
	default:
		h.writeRetry(w, errtext.For(err))
	}
}

func (h *handler) writeRetry(w http.ResponseWriter, reason string) {
	w.Header().Set("Retry-After", "1")
	writeError(w, http.StatusServiceUnavailable, reason+"; retry with the same Idempotency-Key: then the message counts once")
}
