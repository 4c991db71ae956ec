package fleet_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/roles"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// TestRoles: with users, the processes answer with the rights of their roles, and only the operator
// receives the answers. A process without the right to answer logs this once, and works.
func TestRoles(t *testing.T) {
	t.Parallel()
	o := natsserver.Options{Port: natsserver.RandomPort}
	passwords := map[roles.Role]string{}
	for _, role := range roles.All {
		u, password, err := roles.NewUser(string(role), role)
		if err != nil {
			t.Fatal(err)
		}
		r, err := roles.RightsOf(role, u.Name, job, "sensors.*")
		if err != nil {
			t.Fatal(err)
		}
		o.Users = append(o.Users, natsserver.User{Name: u.Name, Password: u.Hash, Publish: r.Publish, Deny: r.Deny, Subscribe: r.Subscribe})
		passwords[role] = password
	}
	s := pipelinetest.Server(t, o)
	as := func(role roles.Role) *nats.Conn {
		t.Helper()
		nc, err := nats.Connect(s.URL(), nats.UserInfo(string(role), passwords[role]), nats.CustomInboxPrefix(roles.InboxPrefix(string(role))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	nc, js := pipelinetest.Connect(t, s)
	r := &rig{t, s, nc, js}
	w := r.startWorker(testModel(t), pipeline.Config{Partitions: 2}) // the stage of the server's process
	serve := func(role roles.Role, teller fleet.Source) *pipelinetest.LogBook {
		t.Helper()
		book := new(pipelinetest.LogBook)
		answers, err := fleet.Serve(as(role), fleet.Self{Job: job, Source: teller, Log: slog.New(slog.NewTextHandler(book, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(answers.Close)
		return book
	}
	serve(roles.Stage, fleet.NewStageSource(new(pipeline.Counters))) // a starting worker on another machine
	serve(roles.Gateway, fleet.NewGatewaySource(func() gateway.Stats { return gateway.Stats{Messages: map[string]uint64{"mqtt": 3}} }))
	serve(roles.Alarms, fleet.NewAlarmsSource(func() fleet.Watch { return fleet.Watch{Begun: true, Rules: 2} }))
	refused := serve(roles.Sensor, fleet.NewGatewaySource(func() gateway.Stats { return gateway.Stats{} }))

	operator := as(roles.Operator)
	var rep *fleet.Report
	pipelinetest.Until(t, "answers of four processes", func() bool {
		var err error
		if rep, err = fleet.BuildReport(t.Context(), operator, job); err != nil {
			return false
		}
		return len(rep.Processes) == 4 && rep.Partitions.Phases["reading"] == 2
	})
	if rep.Processes[0].Watch.Rules != 2 || rep.Processes[1].Gateway.Messages["mqtt"] != 3 || len(rep.Unknown) > 0 {
		t.Errorf("%+v", rep)
	}
	found, err := fleet.Discover(t.Context(), operator, job)
	if err != nil || len(found) != 4 {
		t.Errorf("found %+v, %v", found, err)
	}
	if asked, err := fleet.Ask(t.Context(), as(roles.Reader), job, nil); err == nil && len(asked.Processes) > 0 {
		t.Errorf("a reader hears %+v", asked)
	}
	pipelinetest.Until(t, "a word about the right that is missing", func() bool { return strings.Contains(refused.String(), "docs/nats.md") })
	if n := refused.Lines("cannot answer status requests"); n != 1 {
		t.Errorf("it is said %d times\n%s", n, refused)
	}
	if status := w.counters.Status(); status.Unready() != nil {
		t.Errorf("the stage is not ready: %q", status.Unready())
	}
}
