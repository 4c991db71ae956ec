package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/listen"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Limits of the server. Prometheus gives up after 10 s by default; a client that
// takes longer to ask or to read is cut off.
const (
	requestTime  = 10 * time.Second
	headerTime   = 2 * time.Second // also for a TLS handshake
	idleTime     = 15 * time.Second
	headerBytes  = 16 << 10
	shutdownTime = time.Second // for answers under way
)

// Limits of its connections, which need no login.
const (
	Connections = 256
	perAddress  = 64
)

// ErrOpen is the error for an address that others than this machine can reach, without
// TLS and a login.
var ErrOpen = errors.New("others than this machine can reach this address, so it needs TLS and a login")

// Options say what a server shows.
type Options struct {
	Counters *pipeline.Counters // of the stage, which may start and end while the server runs
	Version  string             // of the program
	GPUs     GPUs               // nil = none
	Access   Access             // who may ask
	Traces   func() trace.Stats // of traces; nil = there are none
	// Page answers GET / and what is below /page/ (package internal/page); nil = nothing does.
	// It is served behind what guards the rest.
	Page http.Handler
	// Alive is why /healthz fails, and the process has to be started again; nil = it never does.
	Alive func() error
	// Certificates are those that the process uses; nil = none.
	Certificates *certs.Watch
	Log          *slog.Logger // optional

	patience time.Duration // requestTime, for tests
}

// Server answers on one address until Close.
type Server struct {
	http     http.Server
	listener net.Listener
	scheme   string // http or https
	done     chan struct{}
}

// Listen serves on a TCP address, "host:port"; without a host on all of the
// machine's, with port 0 on a free one.
func Listen(addr string, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.patience == 0 {
		o.patience = requestTime
	}
	d, err := o.Access.open(o.Log)
	if err != nil {
		return nil, err
	}
	return d.serve(addr, handler(o, newRegistry(o)), o.patience)
}

// serve serves all of h behind the door.
func (d *door) serve(addr string, h http.Handler, patience time.Duration) (*Server, error) {
	log := d.log
	if err := d.access.check(addr); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	quiet := slog.NewLogLogger(log.Handler(), slog.LevelDebug) // clients that break off are no news
	s := &Server{listener: l, scheme: "http", done: make(chan struct{}), http: http.Server{
		Handler:           d.guard(h),
		ReadHeaderTimeout: min(headerTime, patience), ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes, ErrorLog: quiet,
	}}
	if d.access.Cert != "" {
		s.scheme = "https"
	}
	l = listen.Limit(l, listen.Limits{Connections: Connections, PerAddress: perAddress, Name: "metrics", Log: log})
	go func() {
		defer close(s.done)
		if err := s.http.Serve(d.listen(l)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "addr", addr, "err", err)
		}
	}()
	return s, nil
}

// Addr is where the server listens, "host:port".
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL is where to ask, without a path: "http://host:port", or https with TLS.
func (s *Server) URL() string { return s.scheme + "://" + s.Addr() }

// Close lets answers under way finish for a second, ends all connections and
// returns.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // somebody who does not read
		err = s.http.Close()
	}
	<-s.done
	return err
}

// newRegistry holds everything that is exported.
func newRegistry(o Options) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(newStage(o.Counters, o.Version), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if o.Traces != nil {
		r.MustRegister(tracesCollector{o.Traces})
	}
	if o.Certificates != nil {
		r.MustRegister(certificates{o.Certificates})
	}
	if o.GPUs != nil {
		r.MustRegister(&gpus{reader: o.GPUs, log: o.Log, now: time.Now, patience: readingTime})
	}
	return r
}

func handler(o Options, r *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorLog: scrapeLog{o.Log}, ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if o.Alive != nil {
			if err := o.Alive(); err != nil {
				answer(w, http.StatusServiceUnavailable, err.Error())
				return
			}
		}
		answer(w, http.StatusOK, "alive")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		status := o.Counters.Status()
		if why := status.Unready(); len(why) > 0 {
			answer(w, http.StatusServiceUnavailable, strings.Join(why, "\n"))
			return
		}
		answer(w, http.StatusOK, fmt.Sprintf("ready: %d partitions", len(status.Partitions)))
	})
	if o.Page != nil {
		mux.Handle("GET /{$}", o.Page)
		mux.Handle("GET /page/", o.Page)
	}
	return mux
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // a client that is gone asks again
}

// scrapeLog logs what goes wrong in a scrape. A client that breaks it off is no fault of
// this process.
type scrapeLog struct{ log *slog.Logger }

func (l scrapeLog) Println(args ...any) {
	level := slog.LevelError
	for _, a := range args {
		var broken *net.OpError
		if err, ok := a.(error); ok && errors.As(err, &broken) {
			level = slog.LevelDebug
		}
	}
	l.log.Log(context.Background(), level, strings.TrimSpace(fmt.Sprintln(args...)))
}
