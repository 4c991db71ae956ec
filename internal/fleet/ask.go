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
	// answering is how long processes may take to answer.
	answering = time.Second
	// lull is how long after an answer the next one may come, where it is not known how
	// many there are.
	lull = 200 * time.Millisecond
	// mostProcesses and mostInAll bound what is gathered.
	mostProcesses = 4096
	mostInAll     = 64 << 20 // bytes
)

// Asked is what came of a question to the processes of a job.
type Asked struct {
	Processes []Process // in order of role, host and id
	Strange   int       // answers that were none of ours; see ErrAnswer
	Why       error     // of the first of these
}

// Ask asks all processes of a job how they are, and returns when the workers of that list
// have answered, and nobody else has for a moment; after a second at most. That nobody answers is
// no error.
func Ask(ctx context.Context, nc *nats.Conn, job string, workers []string) (Asked, error) {
	missing := map[string]bool{}
	for _, w := range workers {
		missing[w] = true
	}
	return ask(ctx, nc, job, func(p *Process) bool {
		if p.Stage != nil {
			delete(missing, p.Stage.Worker)
		}
		return len(missing) == 0
	})
}

// ask asks all processes of a job. last reports, of each answer in turn, whether those who had
// to answer now have.
func ask(ctx context.Context, nc *nats.Conn, job string, last func(*Process) bool) (Asked, error) {
	var a Asked
	there := map[string]int{} // by id
	enough := false
	err := gather(ctx, nc, job, wire.ReportSubject(job), func() bool { return enough }, func(data []byte) {
		p, err := Decode(data, job)
		if err != nil {
			a.Strange++
			a.Why = cmp.Or(a.Why, err)
			return
		}
		enough = last(p)
		if i, again := there[p.ID]; again {
			a.Processes[i] = *p
			return
		}
		there[p.ID] = len(a.Processes)
		a.Processes = append(a.Processes, *p)
	})
	slices.SortFunc(a.Processes, func(a, b Process) int {
		return cmp.Or(strings.Compare(a.Role, b.Role), strings.Compare(a.Host, b.Host), strings.Compare(a.ID, b.ID))
	})
	return a, err
}

// Found is a process that service discovery has found.
type Found struct {
	Job, Role, ID, Host, Worker, Program string
}

// Discover asks all processes of all jobs who they are. The answers come on a subject of
// the asker's job: where users have rights, those of other jobs may not answer there.
func Discover(ctx context.Context, nc *nats.Conn, asker string) ([]Found, error) {
	var all []Found
	seen := map[string]bool{}
	subject, err := micro.ControlSubject(micro.PingVerb, wire.Service, "")
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	err = gather(ctx, nc, asker, subject, func() bool { return true }, func(data []byte) {
		var ping micro.Ping
		if json.Unmarshal(data, &ping) != nil || ping.Name != wire.Service {
			return // another program under our name
		}
		m := ping.Metadata
		f := Found{m["job"], m["role"], m["id"], m["host"], m["worker"], m["program"]}
		if wire.CheckToken(f.Job) != nil || f.ID == "" || seen[f.ID] {
			return
		}
		names(&f.Role, &f.ID, &f.Host, &f.Worker, &f.Program)
		seen[f.ID] = true
		all = append(all, f)
	})
	slices.SortFunc(all, func(a, b Found) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.Role, b.Role), strings.Compare(a.Host, b.Host), strings.Compare(a.ID, b.ID))
	})
	return all, err
}

// gather publishes a question and hands each answer, which come on a subject of a job, to take. It ends with
// ctx, and after a second; at once where nobody listens; and a lull after the last answer,
// once enough is true.
func gather(ctx context.Context, nc *nats.Conn, job, subject string, enough func() bool, take func(data []byte)) error {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	inbox := wire.AnswerSubject(job, rand.Text())
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	_ = sub.SetPendingLimits(mostProcesses, mostInAll) // what comes beyond is dropped
	if err := nc.PublishRequest(subject, inbox, nil); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	for n, bytes := 0, 0; n < mostProcesses && bytes < mostInAll; n++ {
		wait, end := ctx, context.CancelFunc(func() {})
		if n > 0 && enough() {
			wait, end = context.WithTimeout(ctx, lull)
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
