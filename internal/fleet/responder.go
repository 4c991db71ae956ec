package fleet

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// mostAnswer is how many bytes an answer may have, where the server takes that.
	mostAnswer = 512 << 10
	// again is for how long an answer stands: whoever asks more often gets the same one.
	again = 100 * time.Millisecond
	// endpoint is the name of the one that a service has.
	endpoint = "report"
)

// Self is what a process says of itself beside what its Teller has.
type Self struct {
	Job          string
	Program      string // its version
	Teller       Teller
	Certificates *certs.Watch // that it uses; optional
	Journal      *Journal     // of its log; optional
	Log          *slog.Logger // optional
}

// Responder answers for a process until Close: NATS service discovery ($SRV.PING, INFO
// and STATS) under the name wire.Service, and questions for its Process on the subject
// <job>.status.report.
type Responder struct {
	nc   *nats.Conn
	self Self
	log  *slog.Logger
	all  Process // what does not change
	stop chan struct{}
	done sync.WaitGroup

	others nats.ErrHandler // of the connection

	mu      sync.Mutex // guards what follows, and calls of the Teller
	service micro.Service
	name    string // in the service's metadata
	body    []byte // the last answer
	made    time.Time
	refused sync.Once
	seen    sightings // of a worker
}

// Serve answers on a connection of its own, which Close closes. A login that may not
// answer is no error: the log says so once.
func Serve(nc *nats.Conn, self Self) (*Responder, error) {
	r := &Responder{nc: nc, self: self, log: self.Log, stop: make(chan struct{})}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	host, _ := os.Hostname()
	role, name := self.Teller.Role()
	began := time.Now().UTC()
	r.all = Process{
		Form: Form, Role: role, Job: self.Job, ID: rand.Text(), Host: cut(host, mostName), PID: os.Getpid(), Program: self.Program, Started: began,
	}
	r.others = nc.ErrorHandler()
	nc.SetErrorHandler(r.told)
	r.self.Teller.Note(began)
	if err := r.register(name); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	if role == RoleStage {
		err := r.watchHeartbeats()
		if err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
	}
	r.done.Go(r.follow)
	return r, nil
}

// told hears what the server refuses, and leaves other errors to the connection.
func (r *Responder) told(nc *nats.Conn, sub *nats.Subscription, err error) {
	if natsclient.RefusedAnswer(r.nc, err) { // the asker's subject, not one that this process needs
		r.log.Debug("an answer was refused", "err", err)
		return
	}
	if !errors.Is(err, nats.ErrPermissionViolation) {
		if r.others != nil {
			r.others(nc, sub, err)
		}
		return
	}
	r.refused.Do(func() {
		r.log.Warn("eusn-stream status cannot ask this process how it is, because its login may not answer; its work does not depend on it: allow it what docs/nats.md lists under Status", "err", err)
	})
}

// follow notes what rates and marks are made of.
func (r *Responder) follow() {
	tick := time.NewTicker(rateEvery)
	defer tick.Stop()
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	r.publishHeartbeat(false)
	for {
		select {
		case <-r.stop:
			return
		case now := <-tick.C:
			r.note(now)
		case <-beat.C:
			r.publishHeartbeat(false)
		}
	}
}

func (r *Responder) note(now time.Time) {
	r.mu.Lock()
	r.self.Teller.Note(now)
	_, name := r.self.Teller.Role()
	other := name != r.name
	r.mu.Unlock()
	if other {
		if err := r.register(name); err != nil && !r.nc.IsClosed() {
			r.log.Warn("service discovery shows this process under its former name", "name", name, "err", err)
		}
	}
}

var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// register makes the service, in the place of one with another name.
func (r *Responder) register(name string) error {
	version := strings.TrimPrefix(r.self.Program, "v")
	if !semantic.MatchString(version) {
		version = "0.0.0"
	}
	meta := map[string]string{"job": r.all.Job, "role": r.all.Role, "id": r.all.ID, "host": r.all.Host, "pid": strconv.Itoa(r.all.PID), "program": r.self.Program}
	if name != "" {
		meta["worker"] = name
	}
	s, err := micro.AddService(r.nc, micro.Config{
		Name: wire.Service, Version: version, Description: "a process of an eusn-stream job", Metadata: meta, QueueGroupDisabled: true, // each of them answers
	})
	if err == nil {
		if err = s.AddEndpoint(endpoint, micro.HandlerFunc(r.answer), micro.WithEndpointSubject(wire.ReportSubject(r.self.Job))); err != nil {
			err = errors.Join(err, s.Stop()) // or it would answer beside the next one
		}
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	before := r.service
	r.service, r.name = s, name
	r.mu.Unlock()
	if before != nil {
		return before.Stop()
	}
	return nil
}

// answer answers a question.
func (r *Responder) answer(q micro.Request) {
	reply := q.Reply()
	if q.Subject() != wire.ReportSubject(r.self.Job) || !strings.HasPrefix(reply, strings.TrimSuffix(wire.AnswerSubjects(r.self.Job), "*")) && !natsclient.AnswersTo(r.nc, reply) {
		return // a consumer delivers here
	}
	body, err := r.report()
	if err == nil {
		err = q.Respond(body)
	}
	if err != nil && !r.nc.IsClosed() {
		r.log.Debug("a question how this process is has no answer", "err", err)
	}
}

// report is the process as JSON.
func (r *Responder) report() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.made) < again {
		return r.body, nil
	}
	p := r.all
	p.Time = time.Now().UTC()
	p.Marks = []Mark{{p.Started, MarkStarted, p.Role + " began, program " + p.Program}}
	if r.self.Journal != nil {
		p.Errors = r.self.Journal.Last()
	}
	for _, e := range r.self.Certificates.Expiries() {
		if !e.End.IsZero() {
			p.Certificates = append(p.Certificates, Certificate{e.Use, e.End.UTC()})
		}
	}
	r.self.Teller.Tell(&p)
	if p.Stage != nil {
		p.Stage.Sightings = r.seen.list(p.Time)
	}
	p.order()
	body, err := p.encode(min(mostAnswer, int(r.nc.MaxPayload())))
	if err == nil {
		r.body, r.made = body, time.Now()
	}
	return body, err
}

// encode is the process as JSON of at most so many bytes: what is most and needed least
// is left out first.
func (p *Process) encode(most int) ([]byte, error) {
	for {
		body, err := json.Marshal(p)
		if err != nil || len(body) <= most {
			return body, err
		}
		switch s := p.Stage; {
		case s != nil && len(s.Partitions) > 1:
			kept, left := worst(s.Partitions, len(s.Partitions)/2)
			s.Partitions, s.LeftOut = kept, s.LeftOut+left
		case s != nil && len(s.Classes) > 0:
			s.Classes = nil
		case len(p.Errors) > 0:
			p.Errors = nil
		default:
			return nil, fmt.Errorf("fleet: what the process says of itself has %d bytes, and the server takes %d", len(body), most)
		}
	}
}

// Close ends the answers.
func (r *Responder) Close() {
	close(r.stop)
	r.done.Wait()
	r.publishHeartbeat(true)
	_ = r.nc.FlushTimeout(time.Second) // without it the finding is a false one, for an hour
	r.nc.Close()
}
