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
	// mostAnswer is the maximum size of an answer in bytes, if the server's limit is not smaller.
	mostAnswer = 512 << 10
	// answerAge is how long an answer is reused for later questions.
	answerAge = 100 * time.Millisecond
	// endpointName is the name of the service's only endpoint.
	endpointName = "report"
)

// Self describes a process except its Source.
type Self struct {
	Job          string
	Program      string // version
	Source       Source
	Certificates *certs.Watch // in use by the process; optional
	Journal      *Journal     // of the process's log; optional
	Log          *slog.Logger // optional
}

// Responder answers for a process until Close: NATS service discovery ($SRV.PING, INFO and STATS)
// under the name wire.Service, and questions for its Process on the subject <job>.status.report.
type Responder struct {
	nc       *nats.Conn
	self     Self
	log      *slog.Logger
	constant Process // the constant part
	stop     chan struct{}
	done     sync.WaitGroup

	connectionErrors nats.ErrHandler // the connection's previous error handler

	mu        sync.Mutex // guards the following fields, and calls of the Source
	service   micro.Service
	name      string // in the service's metadata
	body      []byte // last answer
	encodedAt time.Time
	refused   sync.Once
	sightings sightings // of a worker
}

// Serve answers on its own connection, which Close closes. A login without the right to answer is
// no error: the log reports it once.
func Serve(nc *nats.Conn, self Self) (*Responder, error) {
	r := &Responder{nc: nc, self: self, log: self.Log, stop: make(chan struct{})}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	host, _ := os.Hostname()
	role, name := self.Source.Role()
	began := time.Now().UTC()
	r.constant = Process{
		Form: Form, Role: role, Job: self.Job, ID: rand.Text(), Host: cutLine(host, mostName), PID: os.Getpid(), Program: self.Program, Started: began,
	}
	r.connectionErrors = nc.ErrorHandler()
	nc.SetErrorHandler(r.handleError)
	r.self.Source.Sample(began)
	if err := r.registerService(name); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	if role == RoleStage {
		err := r.watchHeartbeats()
		if err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
	}
	r.done.Go(r.runUntilClosed)
	return r, nil
}

// handleError handles the server's refusals, and passes other errors to the previous handler.
func (r *Responder) handleError(nc *nats.Conn, sub *nats.Subscription, err error) {
	if natsclient.RefusedAnswer(r.nc, err) { // refused for the asker's subject, not for a subject that this process needs
		r.log.Debug("an answer was refused", "err", err)
		return
	}
	if !errors.Is(err, nats.ErrPermissionViolation) {
		if r.connectionErrors != nil {
			r.connectionErrors(nc, sub, err)
		}
		return
	}
	r.refused.Do(func() {
		r.log.Warn("this process cannot answer status requests, because its login lacks the right; its work continues: allow the subjects that docs/nats.md lists under Status", "err", err)
	})
}

// runUntilClosed samples the counters for rates and marks, and publishes heartbeats.
func (r *Responder) runUntilClosed() {
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
			r.sampleCounters(now)
		case <-beat.C:
			r.publishHeartbeat(false)
		}
	}
}

func (r *Responder) sampleCounters(now time.Time) {
	r.mu.Lock()
	r.self.Source.Sample(now)
	_, name := r.self.Source.Role()
	renamed := name != r.name
	r.mu.Unlock()
	if renamed {
		if err := r.registerService(name); err != nil && !r.nc.IsClosed() {
			r.log.Warn("service discovery shows this process under its previous name", "name", name, "err", err)
		}
	}
}

var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// registerService creates the service, and replaces a service with a different name.
func (r *Responder) registerService(name string) error {
	version := strings.TrimPrefix(r.self.Program, "v")
	if !semantic.MatchString(version) {
		version = "0.0.0"
	}
	meta := map[string]string{"job": r.constant.Job, "role": r.constant.Role, "id": r.constant.ID, "host": r.constant.Host, "pid": strconv.Itoa(r.constant.PID), "program": r.self.Program}
	if name != "" {
		meta["worker"] = name
	}
	s, err := micro.AddService(r.nc, micro.Config{
		Name: wire.Service, Version: version, Description: "a process of an eusn-stream job", Metadata: meta, QueueGroupDisabled: true, // each process answers
	})
	if err == nil {
		if err = s.AddEndpoint(endpointName, micro.HandlerFunc(r.answerQuestion), micro.WithEndpointSubject(wire.ReportSubject(r.self.Job))); err != nil {
			err = errors.Join(err, s.Stop()) // otherwise both services would answer
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

// answerQuestion answers a question.
func (r *Responder) answerQuestion(q micro.Request) {
	reply := q.Reply()
	if q.Subject() != wire.ReportSubject(r.self.Job) || !strings.HasPrefix(reply, strings.TrimSuffix(wire.AnswerSubjects(r.self.Job), "*")) && !natsclient.AnswersTo(r.nc, reply) {
		return // a consumer delivers here
	}
	body, err := r.encodeReport()
	if err == nil {
		err = q.Respond(body)
	}
	if err != nil && !r.nc.IsClosed() {
		r.log.Debug("cannot answer a status question", "err", err)
	}
}

// encodeReport returns the process as JSON.
func (r *Responder) encodeReport() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.encodedAt) < answerAge {
		return r.body, nil
	}
	p := r.constant
	p.Time = time.Now().UTC()
	p.Marks = []Mark{{p.Started, MarkStarted, p.Role + " started, program " + p.Program}}
	if r.self.Journal != nil {
		p.Errors = r.self.Journal.LastMessages()
	}
	for _, e := range r.self.Certificates.Expiries() {
		if !e.End.IsZero() {
			p.Certificates = append(p.Certificates, Certificate{e.Use, e.End.UTC()})
		}
	}
	r.self.Source.AddStatus(&p)
	if p.Stage != nil {
		p.Stage.Sightings = r.sightings.recentSightings(p.Time)
	}
	p.sortLists()
	body, err := p.encodeWithin(min(mostAnswer, int(r.nc.MaxPayload())))
	if err == nil {
		r.body, r.encodedAt = body, time.Now()
	}
	return body, err
}

// encodeWithin returns the process as JSON of a maximum size: large and less important parts are
// dropped first.
func (p *Process) encodeWithin(most int) ([]byte, error) {
	for {
		body, err := json.Marshal(p)
		if err != nil || len(body) <= most {
			return body, err
		}
		switch s := p.Stage; {
		case s != nil && len(s.Partitions) > 1:
			kept, left := keepWorst(s.Partitions, len(s.Partitions)/2)
			s.Partitions, s.LeftOut = kept, s.LeftOut+left
		case s != nil && len(s.Classes) > 0:
			s.Classes = nil
		case len(p.Errors) > 0:
			p.Errors = nil
		default:
			return nil, fmt.Errorf("fleet: the process's status has %d bytes, but the server allows %d", len(body), most)
		}
	}
}

// Close stops the Responder.
func (r *Responder) Close() {
	close(r.stop)
	r.done.Wait()
	r.publishHeartbeat(true)
	_ = r.nc.FlushTimeout(time.Second) // a lost last heartbeat causes a false finding for an hour
	r.nc.Close()
}
