package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// answerTimeout is the longest time that processes may take to answer.
	answerTimeout = time.Second
	// answerPause is the longest time between two answers if the number of processes is unknown.
	answerPause = 200 * time.Millisecond
	// mostProcesses and mostInAll limit the collected answers.
	mostProcesses = 4096
	mostInAll     = 64 << 20 // bytes
)

// Answers are the answers of a job's processes to a question.
type Answers struct {
	Processes []Process // in order of role, host and ID
	Strange   int       // number of invalid answers, see ErrAnswer
	Why       error     // reason for the first invalid answer
}

// Ask asks all processes of a job for their status. It returns when the listed workers have
// answered and no further answer arrives for answerPause; after a second at most. A job without
// answers is no error.
func Ask(ctx context.Context, nc *nats.Conn, job string, workers []string) (Answers, error) {
	missing := map[string]bool{}
	for _, w := range workers {
		missing[w] = true
	}
	return askUntil(ctx, nc, job, func(p *Process) bool {
		if p.Stage != nil {
			delete(missing, p.Stage.Worker)
		}
		return len(missing) == 0
	})
}

// askUntil asks all processes of a job. last is called for each answer and reports whether all
// expected processes have answered.
func askUntil(ctx context.Context, nc *nats.Conn, job string, last func(*Process) bool) (Answers, error) {
	var a Answers
	indexes := map[string]int{} // by ID
	enough := false
	err := collectAnswers(ctx, nc, job, wire.ReportSubject(job), func() bool { return enough }, func(data []byte) {
		p, err := Decode(data, job)
		if err != nil {
			a.Strange++
			a.Why = cmp.Or(a.Why, err)
			return
		}
		enough = last(p)
		if i, known := indexes[p.ID]; known {
			a.Processes[i] = *p
			return
		}
		indexes[p.ID] = len(a.Processes)
		a.Processes = append(a.Processes, *p)
	})
	slices.SortFunc(a.Processes, func(a, b Process) int {
		return cmp.Or(strings.Compare(a.Role, b.Role), strings.Compare(a.Host, b.Host), strings.Compare(a.ID, b.ID))
	})
	return a, err
}

// DiscoveredProcess is a process found by service discovery.
type DiscoveredProcess struct {
	Job, Role, ID, Host, Worker, Program string
}

// Discover asks all processes of all jobs for their identity. The answers arrive on a subject of
// the asker's job: the rights of other jobs' users may not allow such answers.
func Discover(ctx context.Context, nc *nats.Conn, asker string) ([]DiscoveredProcess, error) {
	var all []DiscoveredProcess
	seen := map[string]bool{}
	subject, err := micro.ControlSubject(micro.PingVerb, wire.Service, "")
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	err = collectAnswers(ctx, nc, asker, subject, func() bool { return true }, func(data []byte) {
		var ping micro.Ping
		if json.Unmarshal(data, &ping) != nil || ping.Name != wire.Service {
			return // another program with the same service name
		}
		m := ping.Metadata
		f := DiscoveredProcess{m["job"], m["role"], m["id"], m["host"], m["worker"], m["program"]}
		if wire.CheckToken(f.Job) != nil || f.ID == "" || seen[f.ID] {
			return
		}
		cleanNames(&f.Role, &f.ID, &f.Host, &f.Worker, &f.Program)
		seen[f.ID] = true
		all = append(all, f)
	})
	slices.SortFunc(all, func(a, b DiscoveredProcess) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.Role, b.Role), strings.Compare(a.Host, b.Host), strings.Compare(a.ID, b.ID))
	})
	return all, err
}

// collectAnswers publishes a question and passes each answer to take; the answers arrive on a
// subject of a job. It ends with ctx, after a second, at once if no process listens, or answerPause
// after an answer if enough returns true.
func collectAnswers(ctx context.Context, nc *nats.Conn, job, subject string, enough func() bool, take func(data []byte)) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	inbox := wire.AnswerSubject(job, rand.Text())
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	_ = sub.SetPendingLimits(mostProcesses, mostInAll) // further answers are dropped
	if err := nc.PublishRequest(subject, inbox, nil); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	for n, bytes := 0, 0; n < mostProcesses && bytes < mostInAll; n++ {
		wait, end := ctx, context.CancelFunc(func() {})
		if n > 0 && enough() {
			wait, end = context.WithTimeout(ctx, answerPause)
		}
		m, err := sub.NextMsgWithContext(wait)
		end()
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return nil
		case err != nil:
			return fmt.Errorf("fleet: answers on %s: %w", subject, err)
		}
		bytes += len(m.Data)
		take(m.Data)
	}
	return nil
}
