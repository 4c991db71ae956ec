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
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/listen"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Limits of the server. Prometheus gives up after 10 s by default; slower clients are disconnected.
const (
	requestTime  = 10 * time.Second
	headerTime   = 2 * time.Second // includes a TLS handshake
	idleTime     = 15 * time.Second
	headerBytes  = 16 << 10
	shutdownTime = time.Second // for pending answers
)

// Limits of connections, which apply before a login.
const (
	Connections = 256
	perAddress  = 64
)

// ErrOpen is the error for an address that other machines can reach, without TLS and a login.
var ErrOpen = errors.New("others than this machine can reach this address, so it needs TLS and a login")

// Options configure a server.
type Options struct {
	Counters *pipeline.Counters   // of the stage, which may start and end during the server's life; nil = no stage, and no /readyz
	Gateway  func() gateway.Stats // of a gateway; nil = none
	Version  string               // of the program
	GPUs     GPUs                 // nil = none
	Access   Access               // access control
	Traces   func() trace.Stats   // of traces; nil = no traces
	// Page serves GET / and paths below /page/ (package internal/page); nil = no page. The access
	// control applies to it.
	Page http.Handler
	// Alive returns the reason for a failing /healthz, after which the process must be restarted;
	// nil = never fails.
	Alive func() error
	// Unready returns the reasons of other parts than the stage for a failing /readyz; nil = none.
	Unready func() []string
	// Certificates are the process's certificates; nil = none.
	Certificates *certs.Watch
	Log          *slog.Logger // optional

	patience time.Duration // requestTime, for tests
}

// Server serves one address until Close.
type Server struct {
	http     http.Server
	listener net.Listener
	scheme   string // http or https
	done     chan struct{}
}

// Listen serves on a TCP address, "host:port"; without a host on all addresses of the machine, with
// port 0 on a free port.
func Listen(addr string, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.patience == 0 {
		o.patience = requestTime
	}
	d, err := o.Access.openDoor(o.Log)
	if err != nil {
		return nil, err
	}
	return d.serveGuarded(addr, newHandler(o, newRegistry(o)), o.patience)
}

// serveGuarded serves h with access control.
func (d *door) serveGuarded(addr string, h http.Handler, patience time.Duration) (*Server, error) {
	log := d.log
	if err := d.access.checkAddress(addr); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	quiet := slog.NewLogLogger(log.Handler(), slog.LevelDebug) // disconnects of clients are normal
	s := &Server{listener: l, scheme: "http", done: make(chan struct{}), http: http.Server{
		Handler:           d.guardHandler(h),
		ReadHeaderTimeout: min(headerTime, patience), ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes, ErrorLog: quiet,
	}}
	if d.access.Cert != "" {
		s.scheme = "https"
	}
	l = listen.Limit(l, listen.Limits{Connections: Connections, PerAddress: perAddress, Name: "metrics", Log: log})
	go func() {
		defer close(s.done)
		if err := s.http.Serve(d.wrapListener(l)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "addr", addr, "err", err)
		}
	}()
	return s, nil
}

// Addr returns the server's address, "host:port".
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the base URL: "http://host:port", or https with TLS.
func (s *Server) URL() string { return s.scheme + "://" + s.Addr() }

// Close lets pending answers finish for a second, then ends all connections.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // a client does not read
		err = s.http.Close()
	}
	<-s.done
	return err
}

// newRegistry returns a registry with all exported metrics.
func newRegistry(o Options) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if o.Counters != nil {
		r.MustRegister(newStage(o.Counters, o.Version))
	}
	if o.Gateway != nil {
		r.MustRegister(gatewayCollector{o.Gateway})
	}
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

func newHandler(o Options, r *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorLog: scrapeLog{o.Log}, ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if o.Alive != nil {
			if err := o.Alive(); err != nil {
				writeText(w, http.StatusServiceUnavailable, err.Error())
				return
			}
		}
		writeText(w, http.StatusOK, "alive")
	})
	if o.Counters != nil {
		mux.HandleFunc("GET /readyz", o.answerReadiness)
	}
	if o.Page != nil {
		mux.Handle("GET /{$}", o.Page)
		mux.Handle("GET /page/", o.Page)
	}
	return mux
}

// answerReadiness answers /readyz.
func (o *Options) answerReadiness(w http.ResponseWriter, _ *http.Request) {
	status := o.Counters.Status()
	why := status.Unready()
	if o.Unready != nil {
		why = append(why, o.Unready()...)
	}
	if len(why) > 0 {
		writeText(w, http.StatusServiceUnavailable, strings.Join(why, "\n"))
		return
	}
	writeText(w, http.StatusOK, fmt.Sprintf("ready: %d partitions", len(status.Partitions)))
}

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // a disconnected client retries
}

// scrapeLog logs errors of a scrape. A client's disconnect is no error of this process.
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
